package schema

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func newJobMemo() *jobMemo {
	return &jobMemo{seed: maphash.MakeSeed(), known: make(map[generationOf]*rememberedJob)}
}

// jobText is the text of a spec with that name.
func jobText(t testing.TB, name string) []byte {
	t.Helper()
	text, err := EncodeJobSpec(&JobSpec{
		Tenant: "t", Name: name, Task: "task", Labels: map[string]string{"a": "b"}, Payload: json.RawMessage(`{"to":"somebody","text":"something"}`),
		Schedule: &Schedule{Cron: "*/5 * * * *", Timezone: "Europe/Berlin", Jitter: Duration(10 * time.Second)},
		Created:  time.Unix(1, 0).UTC(), Updated: time.Unix(2, 0).UTC(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestJobMemoSaysWhatTheTextSays: whatever was remembered before, also under the same job and
// number.
func TestJobMemoSaysWhatTheTextSays(t *testing.T) {
	m := newJobMemo()
	one, two := MakeJobID(time.Unix(1, 0), 1, 1), MakeJobID(time.Unix(1, 0), 1, 2)
	for _, c := range []struct {
		name string
		key  generationOf
		text []byte
	}{
		{"a job", generationOf{one, 1}, jobText(t, "a")},
		{"again", generationOf{one, 1}, jobText(t, "a")},
		{"another job", generationOf{two, 1}, jobText(t, "b")},
		{"another generation", generationOf{one, 2}, jobText(t, "c")},
		{"the first again", generationOf{one, 1}, jobText(t, "a")},
		{"another text under one number", generationOf{one, 1}, jobText(t, "d")},
		{"and back", generationOf{one, 1}, jobText(t, "a")},
		{"a long one", generationOf{two, 2}, jobText(t, strings.Repeat("x", jobMemoText))},
		{"what is none", generationOf{one, 3}, []byte(`{`)},
		{"of what is none, another", generationOf{one, 1}, []byte(`[]`)},
	} {
		want, wantErr := DecodeJobSpec(c.text)
		got, err := m.load(c.key, c.text)
		if (err != nil) != (wantErr != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: load = %+v, %v; want %+v, %v", c.name, got, err, want, wantErr)
		}
	}
	if len(m.known) != 3 {
		t.Errorf("%d specs are remembered, want 3: neither the long one nor the faulty ones", len(m.known))
	}
}

func TestJobMemoIsBounded(t *testing.T) {
	m := newJobMemo()
	text := jobText(t, "a")
	for i := range jobMemoSize + 100 {
		if _, err := m.load(generationOf{JobID{}, int64(i)}, text); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.known); n != jobMemoSize {
		t.Errorf("%d specs are remembered, want %d", n, jobMemoSize)
	}
}

func TestJobMemoAtOnce(t *testing.T) {
	m := newJobMemo()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				name := fmt.Sprint("n", (i+j)%5)
				spec, err := m.load(generationOf{JobID{}, int64(j % 3)}, jobText(t, name))
				if err != nil || spec.Name != name {
					t.Errorf("load = %q, %v; want %q", spec.Name, err, name)
				}
			}
		})
	}
	wg.Wait()
}

// What is remembered costs nothing to make again.
func TestJobMemoAllocatesNothing(t *testing.T) {
	m := newJobMemo()
	text := jobText(t, "a")
	if n := testing.AllocsPerRun(100, func() { _, _ = m.load(generationOf{}, text) }); n != 0 {
		t.Errorf("load of what is remembered: %v allocations, want none", n)
	}
}

// BenchmarkLoadJobSpec reads what a job says for one of its runs.
func BenchmarkLoadJobSpec(b *testing.B) {
	text := jobText(b, "a")
	b.Run("remembered", func(b *testing.B) {
		m := newJobMemo()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.load(generationOf{}, text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeJobSpec(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
