package schema

import (
	"hash/maphash"
	"sync"
)

// The memo of job specs. A job is read for each of its runs, and seldom changes; decoding its spec
// each time was a fifth of the cost of reading it. Specs that were read lately are remembered.
//
// What they point to is shared by all who read the job, and therefore never changed in place.
const (
	// jobMemoSize bounds the remembered specs; beyond it any one of them is forgotten.
	jobMemoSize = 32 << 10
	// jobMemoText bounds the text of a remembered spec, in bytes: 60 MB in all at worst, a third of
	// it usually.
	jobMemoText = 2 << 10
)

// jobMemo remembers specs by job and generation, which never changes what it says. A hash of the
// text guards against a damaged row.
type jobMemo struct {
	seed maphash.Seed

	mu    sync.Mutex
	known map[generationOf]*rememberedJob
}

type generationOf struct {
	job    JobID
	number int64
}

type rememberedJob struct {
	hash uint64
	spec JobSpec
}

var jobSpecs = jobMemo{seed: maphash.MakeSeed(), known: make(map[generationOf]*rememberedJob)}

// LoadJobSpec is DecodeJobSpec of the text of a generation of a job, with a memo. What the spec
// points to is shared: never change it in place.
func LoadJobSpec(job JobID, generation int64, text []byte) (JobSpec, error) {
	return jobSpecs.load(generationOf{job, generation}, text)
}

func (m *jobMemo) load(key generationOf, text []byte) (JobSpec, error) {
	if len(text) > jobMemoText {
		return DecodeJobSpec(text)
	}
	hash := maphash.Bytes(m.seed, text)
	m.mu.Lock()
	known := m.known[key]
	m.mu.Unlock()
	if known != nil && known.hash == hash {
		return known.spec, nil
	}
	spec, err := DecodeJobSpec(text)
	if err != nil {
		return JobSpec{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= jobMemoSize && m.known[key] == nil {
		for other := range m.known { // begins anywhere
			delete(m.known, other)
			break
		}
	}
	m.known[key] = &rememberedJob{hash, spec}
	return spec, nil
}
