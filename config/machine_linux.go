package config

import (
	"superd/internal/passwd"
	"superd/internal/privilege"
)

func thisMachine() *machine {
	return &machine{accounts: passwd.System(), setLimit: privilege.SetLimit, rights: privilege.Attributes{}}
}
