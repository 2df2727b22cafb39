package progress

import (
	"testing"

	"carillon.dev/carillon/schema"
)

func TestTakenOver(t *testing.T) {
	at := func(epoch int64, dispatched, settled schema.Bucket) schema.Cursor {
		return schema.Cursor{Shard: 3, Epoch: epoch, Dispatched: dispatched, Settled: settled}
	}
	for name, row := range map[string]struct {
		stored schema.Cursor
		home   int64
		want   schema.Cursor
	}{
		"without regions":                        {at(1, 50, 40), 0, at(1, 50, 40)},
		"without regions any more":               {at(2001, 50, 40), 0, at(2001, 50, 40)},
		"the first epoch of the home":            {at(7, 50, 40), 1, at(1000, 40, 30)},
		"another owner in the same epoch":        {at(1000, 50, 40), 1, at(1000, 50, 40)},
		"it was rewound in the same epoch":       {at(1002, 50, 40), 1, at(1002, 50, 40)},
		"another region takes the home over":     {at(1002, 50, 40), 2, at(2000, 40, 30)},
		"back again, two epochs later":           {at(1002, 50, 40), 4, at(4000, 40, 30)},
		"an owner that is behind does not go on": {at(4000, 50, 40), 2, at(4000, 50, 40)},
	} {
		got, changed := TakenOver(row.stored, row.home)
		if got != row.want || changed != (row.stored != row.want) {
			t.Errorf("%s: TakenOver(%+v, %d) = %+v, %v, want %+v", name, row.stored, row.home, got, changed, row.want)
		}
	}
}
