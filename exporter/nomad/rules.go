package nomad

import (
	"strconv"
	"sync"
	"time"

	"superd/config"
	"superd/exporter/manifest"
)

const (
	noCounterpart = "Nomad has no counterpart; --whole runs superd in the allocation, which has it"
	ofDriver      = "the driver raw_exec has no such limit; --whole runs superd in the allocation, which has it"
	ofOrder       = "groups of a job start at the same time: what it needs may be missing when it starts, and it is " +
		"restarted until it is there; --whole keeps the order"
	ofSockets     = "nobody passes sockets to a task: the program has to listen on the port itself"
	ofSandbox     = "the driver raw_exec isolates nothing; the driver exec does, in its own way"
	ofDirectories = "nobody makes them: make them on each client, or in a command of pre_start"
	ofOutput      = "Nomad keeps the output of tasks in files of its own: `nomad alloc logs` shows it"
)

// Rules say what becomes of each key of a program.
var Rules = sync.OnceValue(func() manifest.Rules {
	return manifest.Rules{}.
		Keep(`command directory environment groups oom_score_adj replicas schedule autostart
			ready.tcp ready.http health.tcp health.http log.max_size log.keep backoff.initial
			stop_signal start_limit.failures
			rolling.surge rolling.max_unavailable rolling.pause rolling.wait_timeout socket.listen`).
		Lose("watch.paths watch.ignore watch.debounce watch.signal", "a task is not restarted when a file of the client changes: release a version instead").
		Lose(`pty umask nice ionice cpu_affinity scheduling supplementary_groups pid_file schedule_jitter essential
			success_exit_codes no_restart_exit_codes watchdog kill_signal final_kill
			ready.notify ready.fd ready.line stop_command reload_signal reload_notify reload_command check_command
			drain_timeout rolling.abort_on_failure hooks_user`, noCounterpart).
		Lose(`limits.nofile limits.core limits.as limits.cpu_time limits.data limits.fsize limits.memlock
			limits.msgqueue limits.nice limits.nproc limits.rtprio limits.rttime limits.sigpending limits.stack
			limits.memory_high limits.swap limits.cpu_weight limits.io limits.tasks`, ofDriver).
		Lose("limits.memory", "Nomad reserves the memory, and the driver raw_exec enforces no limit; the driver exec does").
		Lose("limits.cpu", "Nomad reserves CPUs in MHz (resources.cpu) or as whole ones (resources.cores): write one of them").
		Lose("requires after", ofOrder).
		Lose(`sockets start socket_pass idle_timeout accept max_connections max_connections_per_source
			socket.backlog socket.mode socket.user socket.group socket.fdname socket.reuse_port socket.free_bind
			socket.device socket.no_delay socket.keep_alive socket.non_blocking`, ofSockets).
		Lose(`runtime_directory state_directory cache_directory logs_directory runtime_directory_mode
			state_directory_mode cache_directory_mode logs_directory_mode runtime_directory_preserve`, ofDirectories).
		Lose(`sandbox.preset sandbox.best_effort sandbox.no_new_privileges sandbox.capabilities
			sandbox.ambient_capabilities sandbox.protect_system sandbox.read_only sandbox.read_write
			sandbox.inaccessible sandbox.private_tmp sandbox.private_devices sandbox.private_network
			sandbox.root_directory sandbox.landlock.read sandbox.landlock.write sandbox.landlock.execute
			sandbox.landlock.bind_tcp sandbox.landlock.connect_tcp sandbox.syscalls.allow sandbox.syscalls.deny
			sandbox.syscalls.errno sandbox.address_families sandbox.deny_write_execute`, ofSandbox).
		Lose(`log.file log.format log.max_age log.max_total log.compress log.stderr log.stderr_file log.overflow
			log.min_free log.owner log.group log.mode log.sink log.command log.address log.identifier
			log.facility`, ofOutput).
		Lose("backoff.max backoff.factor backoff.jitter backoff.reset_after", "Nomad's pause between restarts is "+
			"constant, with a jitter of its own: restart.delay").
		Lose("env_file", "Nomad reads the file of the client only with template.disable_file_sandbox = true in its "+
			"configuration, and the file must be there; without it, put the variables into a Nomad variable. Its variables "+
			"override those of `environment`").
		Lose("inherit_environment", "a task gets the agent's environment in part: denied_envvars of the driver takes more of it").
		Lose("ready.exec health.exec", "a check by a command needs Consul: write it as `check { type = \"script\" }` of a "+
			"service there").
		Lose("post_stop", "it runs once, when the group stops, not after each run").
		Decide("user", func(p *manifest.Program) string {
			if _, err := strconv.Atoi(p.User); err == nil {
				return "Nomad takes it for the name of a user: write the name"
			}
			return ""
		}).
		Decide("ready.interval ready.timeout", func(p *manifest.Program) string {
			return ofCheck(p.Ready != nil && (p.Ready.TCP != "" || p.Ready.HTTP != ""))
		}).
		Decide("health.interval health.timeout health.failures health.action", func(p *manifest.Program) string {
			return ofCheck(p.Health != nil && (p.Health.TCP != "" || p.Health.HTTP != ""))
		}).
		Decide("type", func(p *manifest.Program) string {
			if p.Type == config.TypeForking {
				return "a task ends with its command: let it stay in the foreground"
			}
			return ""
		}).
		Decide("restart", func(p *manifest.Program) string {
			if !p.Oneshot() && p.Restart == config.RestartOnFailure {
				return "a service of Nomad is also restarted after a success"
			}
			return ""
		}).
		Decide("schedule_missed", func(*manifest.Program) string {
			return "Nomad runs it once when its servers are back"
		}).
		Decide("pre_start", func(p *manifest.Program) string {
			if len(p.PreStart) > 1 {
				return "they run at the same time, before the first start in an allocation, not before each restart"
			}
			return "it runs before the first start in an allocation, not before each restart"
		}).
		Lose("post_start", "it runs when the task has been started, not when the program is ready").
		Decide("start_timeout", func(p *manifest.Program) string {
			if p.Rolling != nil {
				return ""
			}
			return "Nomad has such a limit for updates only: add a table `rolling`"
		}).
		Decide("start_limit.within", func(p *manifest.Program) string {
			if p.StartLimit.Failures > 0 && p.StartLimit.Within >= leastInterval {
				return ""
			}
			return "restart.interval is at least 5 s"
		}).
		Decide("start_limit.retry_after", func(p *manifest.Program) string {
			if p.StartLimit.RetryAfter == 0 {
				return ""
			}
			return "Nomad tries again in the next restart.interval"
		}).
		Decide("stop_timeout", func(p *manifest.Program) string {
			if p.StopTimeout > maxKillTimeout {
				return "clients cut it to their max_kill_timeout, which is 30 s unless their configuration has more"
			}
			return ""
		}).
		Decide("kill_mode", func(p *manifest.Program) string {
			if p.KillMode == config.KillMixed {
				return ""
			}
			return "a task ends as with \"mixed\": what is left when the main process ends gets SIGKILL"
		})
})

// ofCheck returns the note on a setting of a check, which is exported if the check is.
func ofCheck(exported bool) string {
	if exported {
		return ""
	}
	return "it is for a check that the task does not have"
}

// leastInterval is the shortest restart.interval. Source: structs.RestartPolicy.Validate of Nomad.
const leastInterval = 5 * time.Second

// maxKillTimeout is the longest kill_timeout that a client allows unless it is configured.
const maxKillTimeout = 30 * time.Second
