package hosttest

import (
	"errors"
	"strings"
	"time"

	"superd/procs/probe"
)

// A checker checks the program whose name is the address.
type checker struct {
	k        *Kernel
	instance string
}

// CheckTCP implements [host.Host].
func (k *Kernel) CheckTCP(address string) probe.Checker { return &checker{k, address} }

// CheckHTTP implements [host.Host].
func (k *Kernel) CheckHTTP(address string) (probe.Checker, error) { return k.CheckTCP(address), nil }

// Check implements [probe.Checker].
func (c *checker) Check(done func(error)) (stop func() (begun bool)) {
	k := c.k
	k.checks++
	key := k.checks
	answer := func(err error) {
		if k.checking[key] != nil {
			delete(k.checking, key)
			k.session.Post(func() { done(err) })
		}
	}
	k.checking[key] = answer
	if k.chance(k.Mix.CheckHangs) {
		return func() bool { answer(errors.New("stopped")); return true }
	}
	k.session.After(k.upTo(100*time.Millisecond), func() { answer(k.checkResult(c.instance)) })
	return func() bool { answer(errors.New("stopped")); return true }
}

// Sleep suspends the machine: checks under way lose their connections.
func (k *Kernel) Sleep() {
	for _, key := range sortedKeys(k.checking) {
		k.checking[key](errors.New("connection timed out"))
	}
}

var errRefused = errors.New("connection refused")

// checkResult returns the result of a check of an instance, or of a program whose replicas share
// one address.
func (k *Kernel) checkResult(name string) error {
	for p := range k.Processes() {
		if (p.Instance == name || strings.HasPrefix(p.Instance, name+"@")) && p.serves() && !p.Zombie && p.ReadyAt != 0 && !p.Unhealthy && !p.Busy {
			return nil
		}
	}
	return errRefused
}
