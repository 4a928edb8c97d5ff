package systemd

import (
	"sync"
	"syscall"

	"superd/config"
	"superd/exporter/manifest"
)

const (
	noCounterpart = "systemd has no counterpart; --whole runs superd in one unit, which has it"
	ofJournal     = "the journal keeps the output of all units: SystemMaxUse= and MaxRetentionSec= in journald.conf"
	ofRestart     = "systemd restarts a unit at once when it is told to: `systemctl restart`"
)

// Rules say what becomes of each key of a program.
var Rules = sync.OnceValue(func() manifest.Rules {
	return manifest.Rules{}.
		Keep(`command directory environment inherit_environment user umask nice ionice cpu_affinity scheduling
			oom_score_adj runtime_directory state_directory cache_directory logs_directory runtime_directory_mode
			state_directory_mode cache_directory_mode logs_directory_mode runtime_directory_preserve
			groups replicas type pid_file schedule schedule_jitter schedule_missed start after
			no_restart_exit_codes backoff.initial start_limit.within watchdog stop_signal stop_timeout
			kill_signal final_kill ready.notify pre_start post_start post_stop stop_command
			reload_signal reload_command log.identifier log.facility
			limits.nofile limits.core limits.as limits.cpu_time limits.data limits.fsize limits.memlock
			limits.msgqueue limits.nice limits.nproc limits.rtprio limits.rttime limits.sigpending limits.stack
			limits.memory limits.memory_high limits.swap limits.cpu limits.cpu_weight limits.io limits.tasks
			sandbox.preset sandbox.no_new_privileges sandbox.capabilities sandbox.ambient_capabilities
			sandbox.protect_system sandbox.read_only sandbox.read_write sandbox.inaccessible sandbox.private_tmp
			sandbox.private_devices sandbox.private_network sandbox.root_directory sandbox.syscalls.allow
			sandbox.syscalls.deny sandbox.syscalls.errno sandbox.address_families sandbox.deny_write_execute
			sockets accept max_connections max_connections_per_source
			socket.listen socket.backlog socket.mode socket.user socket.group socket.fdname socket.reuse_port
			socket.free_bind socket.device socket.no_delay socket.keep_alive socket.non_blocking`).
		Lose("watch.paths watch.ignore watch.debounce watch.signal", "a unit of type path starts a service that is down, and does not restart one that runs").
		Lose(`pty essential ready.fd ready.line ready.tcp ready.http ready.exec ready.interval ready.timeout
			health.tcp health.http health.exec health.interval health.timeout health.failures health.action
			idle_timeout sandbox.best_effort sandbox.landlock.read sandbox.landlock.write sandbox.landlock.execute
			sandbox.landlock.bind_tcp sandbox.landlock.connect_tcp`, noCounterpart).
		Lose(`rolling.surge rolling.max_unavailable rolling.pause rolling.abort_on_failure rolling.wait_timeout
			drain_timeout`, ofRestart).
		Lose("backoff.max backoff.factor backoff.reset_after", "the pause between restarts is constant; since systemd 254 "+
			"RestartSteps= and RestartMaxDelaySec= let it grow").
		Lose("backoff.jitter", "the pause between restarts has no jitter").
		Lose("start_limit.retry_after", "systemd does not try again: `systemctl reset-failed` and `start` do").
		Lose("requires", "systemd also restarts it with what it needs, does not start it again when that is back "+
			"after a stop, and waits for its start only, unless that has `ready.notify`; --whole keeps the rest").
		Lose("check_command", "it precedes a reload, and not a restart").
		Lose("reload_notify", "Type=notify-reload needs systemd 253: with that, write it in place of ExecReload=").
		Lose(`log.max_size log.keep log.max_age log.max_total log.compress log.overflow log.min_free log.format
			log.owner log.group log.mode log.command log.address`, ofJournal).
		Decide("log.file log.stderr log.stderr_file", func(p *manifest.Program) string {
			if p.Log.File == "/dev/null" || p.Log.Stderr == config.StderrLabel {
				return ofJournal
			}
			return "systemd appends to the file and never rotates it: logrotate does"
		}).
		Decide("log.sink", func(p *manifest.Program) string {
			if p.Log.Sink == config.SinkJournald {
				return ""
			}
			return "the output is in the journal"
		}).
		Decide("restart", func(p *manifest.Program) string {
			if p.Oneshot() && p.Restart == config.RestartOnFailure {
				return "a one-shot that SIGHUP, SIGINT, SIGTERM or SIGPIPE ends has succeeded for systemd"
			}
			return ""
		}).
		Decide("env_file", func(p *manifest.Program) string {
			if len(p.Environment) > 0 {
				return "in systemd a variable of EnvironmentFile= counts rather than one of Environment="
			}
			return ""
		}).
		Decide("autostart", func(*manifest.Program) string {
			return "the unit has no [Install], so that it can't be enabled by mistake: `systemctl start` starts it"
		}).
		Decide("supplementary_groups", func(p *manifest.Program) string {
			switch {
			case len(p.SupplementaryGroups) == 0:
				return "systemd gives it the groups of the user, and can't take them away"
			case p.User != "":
				return "systemd adds them to the groups of the user"
			}
			return ""
		}).
		Decide("success_exit_codes", func(p *manifest.Program) string {
			for _, code := range p.SuccessExitCodes {
				if code == 0 {
					return ""
				}
			}
			return "0 counts as success, too"
		}).
		Decide("start_limit.failures", func(p *manifest.Program) string {
			if p.StartLimit.RetryAfter > 0 {
				return "systemd counts all starts, not failures, and does not try again"
			}
			return "systemd counts all starts, not failures"
		}).
		Decide("start_timeout", func(p *manifest.Program) string {
			if p.Oneshot() {
				return "TimeoutStartSec= would limit the whole run of a one-shot: it has none"
			}
			return ""
		}).
		Decide("kill_mode", func(p *manifest.Program) string {
			if p.KillMode == config.KillGroup {
				return "systemd knows no process groups: all processes get the signals"
			}
			return ""
		}).
		Decide("socket_pass", func(p *manifest.Program) string {
			if p.Sockets.Pass == config.PassFD {
				return "systemd passes sockets as LISTEN_FDS says, from descriptor 3 on, without SOCKET_FD_…"
			}
			return ""
		}).
		Decide("hooks_user", func(p *manifest.Program) string {
			if p.HooksUser == "root" || p.HooksUser == "0" {
				return ""
			}
			return "hooks run as the user of the unit, or as root"
		})
})

// cleanSignals end a process without a failure in systemd, and with one in superd.
var cleanSignals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}
