// Package tests drives the real superd from outside. See package harness.
package tests

import (
	"testing"

	"superd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
