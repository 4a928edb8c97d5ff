package compose

import (
	"strconv"
	"sync"

	"superd/config"
	"superd/exporter/manifest"
)

const (
	noCounterpart = "Compose has no counterpart; --whole runs superd in one container, which has it"
	ofOutput      = "Docker keeps what a container writes to standard output: `docker compose logs` shows it"
	ofSockets     = "nobody passes sockets to a container: the program has to listen on the port itself"
	ofReload      = "`docker compose exec` or `kill -s` sends it"
)

// Rules say what becomes of each key of a program.
var Rules = sync.OnceValue(func() manifest.Rules {
	return manifest.Rules{}.
		Keep(`command directory environment env_file inherit_environment groups pty cpu_affinity oom_score_adj
			replicas health.exec ready.exec
			after stop_signal stop_timeout stop_command log.max_size log.keep log.address
			runtime_directory state_directory cache_directory logs_directory
			limits.memory limits.memory_high limits.swap limits.cpu limits.tasks limits.io
			limits.nofile limits.core limits.as limits.cpu_time limits.data limits.fsize limits.memlock
			limits.msgqueue limits.nice limits.nproc limits.rtprio limits.rttime limits.sigpending limits.stack
			sandbox.preset sandbox.no_new_privileges sandbox.capabilities sandbox.private_network
			sandbox.private_tmp socket.listen`).
		Lose("watch.paths watch.ignore watch.debounce watch.signal", "Compose watches files by develop.watch, for `docker compose watch`: write that").
		Lose(`umask nice ionice scheduling pid_file schedule_jitter schedule_missed start essential
			success_exit_codes no_restart_exit_codes backoff.initial backoff.max backoff.factor backoff.jitter
			backoff.reset_after start_limit.within start_limit.retry_after watchdog
			kill_signal final_kill ready.notify ready.fd ready.line health.tcp health.http ready.tcp ready.http
			post_stop check_command runtime_directory_mode
			state_directory_mode cache_directory_mode logs_directory_mode runtime_directory_preserve
			sandbox.best_effort sandbox.ambient_capabilities sandbox.read_only sandbox.inaccessible
			sandbox.root_directory sandbox.landlock.read sandbox.landlock.write sandbox.landlock.execute
			sandbox.landlock.bind_tcp sandbox.landlock.connect_tcp sandbox.address_families
			sandbox.deny_write_execute
			rolling.surge rolling.max_unavailable rolling.pause rolling.abort_on_failure rolling.wait_timeout
			drain_timeout`, noCounterpart).
		Lose("reload_signal reload_notify reload_command", ofReload).
		Lose("limits.cpu_weight", "cpu_shares is near, in other units").
		Lose("schedule", "Compose has no schedules: cron on the host runs `docker compose run`, or --whole").
		Lose("requires", "Compose waits for it once, when it starts both; it does not stop one with the other").
		Lose("sockets socket_pass idle_timeout accept max_connections max_connections_per_source", ofSockets).
		Lose(`socket.backlog socket.mode socket.user socket.group socket.fdname socket.reuse_port socket.free_bind
			socket.device socket.no_delay socket.keep_alive socket.non_blocking`, ofSockets).
		Lose(`log.file log.format log.max_age log.max_total log.stderr log.stderr_file log.overflow
			log.min_free log.owner log.group log.mode log.command`, ofOutput).
		Lose("sandbox.private_devices", "a container has harmless devices only, unless it is privileged").
		Lose("sandbox.read_write", "only what is mounted is writable: mount a volume there").
		Lose("sandbox.syscalls.allow sandbox.syscalls.deny sandbox.syscalls.errno", "the container gets the filter of "+
			"Docker; one of your own is a file: `security_opt: [seccomp=FILE]`").
		Lose("health.action", "Docker shows a container as unhealthy, and does not restart it").
		Lose("start_timeout", "Compose waits for start_period of the healthcheck, which has the same time if there is one").
		Lose("post_start", "the hooks run beside the start, not when the program is ready").
		Lose("pre_start", "they run as services of their own, once, before it").
		Decide("user", named("user")).
		Decide("supplementary_groups", named("group")).
		Decide("hooks_user", func(p *manifest.Program) string {
			if _, err := strconv.Atoi(p.HooksUser); err == nil || p.HooksUser == "root" {
				return ""
			}
			return "the user " + p.HooksUser + " has to be in the image"
		}).
		Decide("autostart", func(p *manifest.Program) string {
			return "it has the profile \"manual\": `docker compose up " + p.ID + "` starts it"
		}).
		Decide("type", func(p *manifest.Program) string {
			if p.Type == config.TypeForking {
				return "a container ends with its command: let it stay in the foreground"
			}
			return ""
		}).
		Decide("ready.interval ready.timeout", func(p *manifest.Program) string {
			return ofCheck(p.Ready != nil && p.Ready.Exec != nil)
		}).
		Decide("health.interval health.timeout health.failures", func(p *manifest.Program) string {
			return ofCheck(p.Health != nil && p.Health.Exec != nil)
		}).
		Decide("restart", func(*manifest.Program) string { return "" }).
		Decide("start_limit.failures", func(p *manifest.Program) string {
			if p.Restart == config.RestartOnFailure {
				return "Docker counts all failures, at any time"
			}
			return noCounterpart
		}).
		Decide("log.sink", func(p *manifest.Program) string {
			if p.Log.Sink == config.SinkCommand {
				return ofOutput
			}
			return ""
		}).
		Decide("log.compress", func(p *manifest.Program) string {
			if p.Log.Compress == config.CompressGzip && p.Log.Sink == config.SinkFile {
				return ""
			}
			return "Docker compresses by gzip only"
		}).
		Decide("log.identifier log.facility", func(p *manifest.Program) string {
			if p.Log.Sink == config.SinkSyslog || p.Log.Sink == config.SinkJournald {
				return ""
			}
			return ofOutput
		}).
		Decide("kill_mode", func(p *manifest.Program) string {
			if p.KillMode == config.KillMixed {
				return ""
			}
			return "a container ends as with \"mixed\": what is left when the main process ends gets SIGKILL"
		}).
		Decide("sandbox.protect_system", func(p *manifest.Program) string {
			if p.Sandbox != nil && p.Sandbox.ProtectSystem == "strict" {
				return ""
			}
			return "a root file system is read-only or not: `read_only: true` is near"
		})
})

// ofCheck returns the note on a setting of a check, which is exported if the check is.
func ofCheck(exported bool) string {
	if exported {
		return ""
	}
	return "it is for a check that the container does not have: Docker has checks by a command"
}

// named returns a rule for users and groups: a name is looked up in the image.
func named(kind string) func(*manifest.Program) string {
	return func(p *manifest.Program) string {
		values := []string{p.User}
		switch kind {
		case "group":
			values = p.SupplementaryGroups
		}
		for _, v := range values {
			if _, err := strconv.Atoi(v); err != nil && v != "" {
				return "the " + kind + " " + v + " has to be in the image"
			}
		}
		return ""
	}
}
