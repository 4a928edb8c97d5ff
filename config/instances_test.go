package config

import (
	"reflect"
	"testing"
)

func TestInstances(t *testing.T) {
	for _, tt := range []struct {
		replicas int
		want     []string
	}{{1, []string{"web"}}, {3, []string{"web@1", "web@2", "web@3"}}} {
		p := &Program{Name: "web", Settings: &Settings{Replicas: tt.replicas}}
		if got := p.Instances(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("instances of %d replicas = %q, want %q", tt.replicas, got, tt.want)
		}
	}
}
