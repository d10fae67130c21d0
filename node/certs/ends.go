package certs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Expiry is when a certificate in a directory expires.
type Expiry struct {
	Name     string    // of the file, without its suffix: ca, control, n0
	NotAfter time.Time // of the first to expire, if the file has several
	Err      error     // why it cannot be read
}

// Expiries lists the expiries of all certificates in a directory, by name.
func Expiries(dir string) (list []Expiry, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), certSuffix)
		if !ok {
			continue
		}
		end := Expiry{Name: name}
		all, err := loadCerts(filepath.Join(dir, f.Name()))
		if end.Err = err; err == nil && len(all) == 0 {
			end.Err = errors.New("there is no certificate in it")
		}
		for i, c := range all {
			if i == 0 || c.NotAfter.Before(end.NotAfter) {
				end.NotAfter = c.NotAfter
			}
		}
		list = append(list, end)
	}
	return list, nil
}
