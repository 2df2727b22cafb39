package progress

import "carillon.dev/carillon/schema"

// Below returns the id right below one that schema.FirstID returned.
func Below(id schema.EntryID) schema.EntryID {
	id[8] = 0
	return id
}

// Before returns an id between id and the one that sorts before it.
func Before(id schema.EntryID) schema.EntryID {
	if hash := id.Hash(); hash > 0 {
		return schema.MakeEntryID(id.Time(), id.Shard(), hash-1)
	}
	return Below(id)
}
