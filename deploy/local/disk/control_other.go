//go:build !linux

package disk

import (
	"errors"
	"os"
)

type request int

const (
	freeze request = iota
	thaw
	shutDown
)

func platformError() error { return errors.New("disks of members need Linux") }

func (d *Disk) control(request) error { return platformError() }

func takeRoom(*os.File) error { return platformError() }

func tryLock(*os.File) error { return platformError() }
