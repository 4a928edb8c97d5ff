package kubernetes

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"superd/config"
	"superd/exporter/manifest"
)

const (
	noCounterpart = "Kubernetes has no counterpart; --whole runs superd in the pod, which has it"
	ofKubelet     = "the kubelet decides that for all containers of its machine, in its own configuration"
	ofOutput      = "the kubelet keeps what a container writes to standard output: set containerLogMaxSize and " +
		"containerLogMaxFiles in its configuration"
	ofPods = "pods do not wait for each other: what it needs may be missing when it starts, and it is restarted " +
		"until it is there; --whole keeps the order"
	ofSockets = "nobody passes sockets to a container: the program has to listen on the port itself"
	ofService = "a Service has no such setting: the program has to set it for its own sockets"
	ofReload  = "a rollout replaces pods; a reload without one needs `kubectl exec`"
	ofImage   = "it has that of the image: write the number that it has there"
)

// Rules say what becomes of each key of a program.
var Rules = sync.OnceValue(func() manifest.Rules {
	return manifest.Rules{}.
		Keep(`command directory environment env_file inherit_environment groups pty replicas schedule autostart
			cache_directory logs_directory ready.tcp ready.http ready.exec
			health.tcp health.http health.exec health.interval health.timeout
			health.failures health.action stop_timeout stop_command limits.memory limits.cpu
			rolling.surge rolling.max_unavailable rolling.pause rolling.wait_timeout sandbox.preset
			sandbox.no_new_privileges sandbox.capabilities socket.listen`).
		Lose("watch.paths watch.ignore watch.debounce watch.signal", "nothing restarts a pod when a file in it changes: release a version instead").
		Lose(`umask nice ionice cpu_affinity scheduling oom_score_adj pid_file ready.notify ready.fd ready.line watchdog
			kill_signal final_kill post_stop schedule_jitter essential
			limits.cpu_weight limits.io limits.as limits.cpu_time limits.data limits.fsize limits.memlock
			limits.msgqueue limits.nice limits.nproc limits.rtprio limits.rttime limits.sigpending limits.stack
			limits.nofile limits.core limits.memory_high
			no_restart_exit_codes success_exit_codes start_limit.within
			start_limit.retry_after drain_timeout rolling.abort_on_failure
			runtime_directory_mode state_directory_mode cache_directory_mode logs_directory_mode
			sandbox.best_effort sandbox.ambient_capabilities sandbox.read_only sandbox.inaccessible
			sandbox.private_network sandbox.root_directory sandbox.landlock.read sandbox.landlock.write
			sandbox.landlock.execute sandbox.landlock.bind_tcp sandbox.landlock.connect_tcp
			sandbox.address_families sandbox.deny_write_execute`, noCounterpart).
		Lose("backoff.initial backoff.max backoff.factor backoff.jitter backoff.reset_after",
			"the kubelet has its own pauses between restarts, from 10 s to 5 min").
		Lose("limits.swap limits.tasks", ofKubelet).
		Lose("requires after", ofPods).
		Lose("reload_signal reload_notify reload_command check_command", ofReload).
		Lose("start idle_timeout accept max_connections max_connections_per_source socket_pass sockets", ofSockets).
		Lose(`socket.backlog socket.mode socket.user socket.group socket.fdname socket.reuse_port socket.free_bind
			socket.device socket.no_delay socket.keep_alive socket.non_blocking`, ofService).
		Lose(`log.file log.format log.max_size log.keep log.max_age log.max_total log.compress log.stderr
			log.stderr_file log.overflow log.min_free log.owner log.group log.mode`, ofOutput).
		Lose("log.command log.address log.identifier log.facility", "it is for a sink that the container does not "+
			"have: an agent for logs on each machine reads what containers write").
		Lose("sandbox.private_devices", "a container has harmless devices only, unless it is privileged").
		Lose("sandbox.read_write", "only what is mounted is writable: mount a volume there").
		Lose("sandbox.syscalls.allow sandbox.syscalls.deny sandbox.syscalls.errno", "the container gets the filter of "+
			"its runtime (RuntimeDefault); one of your own is a file of each machine: `type: Localhost`").
		Decide("sandbox.protect_system", func(p *manifest.Program) string {
			if p.Sandbox != nil && p.Sandbox.ProtectSystem == "strict" {
				return ""
			}
			return "a root file system is read-only or not: readOnlyRootFilesystem is near"
		}).
		Decide("user", numeric("user", "runAsUser", func(p *manifest.Program) []string { return []string{p.User} })).
		Decide("supplementary_groups", numeric("group", "supplementalGroups",
			func(p *manifest.Program) []string { return p.SupplementaryGroups })).
		Decide("hooks_user", numeric("user", "runAsUser", func(p *manifest.Program) []string { return []string{p.HooksUser} })).
		Decide("sandbox.private_tmp", func(*manifest.Program) string { return "" }).
		Decide("log.sink", func(p *manifest.Program) string {
			if p.Log.Sink == config.SinkStdout {
				return ""
			}
			return ofOutput
		}).
		Decide("type", func(p *manifest.Program) string {
			if p.Type == config.TypeForking {
				return "a container ends with its command: let it stay in the foreground"
			}
			return ""
		}).
		Decide("restart", func(p *manifest.Program) string {
			if p.Oneshot() {
				return ""
			}
			return "a Deployment restarts containers always"
		}).
		Decide("start_limit.failures", func(p *manifest.Program) string {
			if p.Oneshot() && p.Restart == config.RestartOnFailure {
				return ""
			}
			return "a Deployment restarts a container without end"
		}).
		Decide("schedule_missed", func(*manifest.Program) string { return "" }).
		Decide("start_timeout ready.interval ready.timeout", func(p *manifest.Program) string {
			if p.Ready != nil && (p.Ready.TCP != "" || p.Ready.HTTP != "" || p.Ready.Exec != nil) {
				return ""
			}
			return "it needs a check by tcp, http or exec in `ready`"
		}).
		Lose("runtime_directory_preserve", "a directory of the pod lives as long as the pod").
		Decide("runtime_directory", func(*manifest.Program) string { return "" }).
		Decide("state_directory", func(p *manifest.Program) string {
			return fmt.Sprintf("make the PersistentVolumeClaim %s, in the size that it needs", claim(p))
		}).
		Decide("pre_start", func(*manifest.Program) string {
			return "init containers run before the first start in a pod, not before each restart"
		}).
		Decide("post_start", func(p *manifest.Program) string {
			if len(p.PostStart) > 1 {
				return "a container has one such command: the first is exported. It runs beside the start, not when " +
					"the program is ready"
			}
			return "it runs beside the start, not when the program is ready"
		}).
		Decide("stop_signal", func(p *manifest.Program) string {
			return "SIGTERM follows when the program has ended; the image needs sh, kill and sleep"
		}).
		Decide("kill_mode", func(p *manifest.Program) string {
			if p.KillMode == config.KillMixed {
				return ""
			}
			return "a container ends as with \"mixed\": what is left when the main process ends gets SIGKILL"
		})
})

// numeric returns a rule for users or groups: names of this machine mean nothing in an image.
func numeric(kind, field string, values func(*manifest.Program) []string) func(*manifest.Program) string {
	return func(p *manifest.Program) string {
		for _, v := range values(p) {
			if _, err := strconv.ParseUint(v, 10, 32); err != nil {
				return fmt.Sprintf("%s takes numbers, and the %s %s is one of this machine: %s", field, kind, v, ofImage)
			}
		}
		return ""
	}
}

// rounded notes a time that Kubernetes has in whole seconds only.
func rounded(p *manifest.Program, key string, d time.Duration) int64 {
	n := max(1, manifest.Seconds(d))
	if time.Duration(n)*time.Second != d {
		p.Note(key, "Kubernetes has whole seconds: it is %d s", n)
	}
	return n
}
