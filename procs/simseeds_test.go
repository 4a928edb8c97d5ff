package procs

import (
	"fmt"
	"testing"
)

// TestSimulationSeeds replays seeds that once found a defect. What a seed draws changes with the
// simulation. A defect with a test of its own has the name of that test.
func TestSimulationSeeds(t *testing.T) {
	const superd, observer = "superd", "the observer"
	seeds := []struct {
		seed  uint64
		wrong string
		shows string
	}{
		{40706, observer, "an instance that the shutdown has not reached yet could start, and does not"},
		{63784, observer, "as 40706, after a reload"},
		{76230, observer, "as 40706"},
		{104588, observer, "as 40706"},
		{160362, observer, "as 40706"},
		{168320, observer, "as 40706"},
		{170746, observer, "as 40706"},
		{182272, observer, "as 40706"},
		{182302, observer, "as 40706"},
		{97219, superd, "messages after the start time-out delay its outcome: TestWhenTakenDuringAKeptFlood in notify"},
		{122687, superd, "as 97219"},
		{327214, observer, "an outcome waits for four held messages, one after the other"},
		{32293, superd, "a main process that has ended is reported as unkillable: TestExitedProcessIsNotReportedUnkillable"},
		{127536, superd, "as 32293"},
		{202920, superd, "as 32293, of an adopted process"},
		{74087, observer, "an instance created since is not the one that the operator stopped"},
		{101365, observer, "a start by the operator restarts the requirements a second time"},
		{142615, superd, "the journal refers to a removed configuration: TestConfigurationBeforeIsGone"},
		{152522, superd, "as 142615: the definition of a run is never updated"},
		{18379, superd, "a check is started before its tree is recorded: TestCheckWaitsForTreeRecord"},
		{202153, observer, "a reaped main process is not a child of the successor"},
		{252137, observer, "a time missed by exactly a second is skipped"},
		{255324, superd, "the end of a process takes the owner of a newer one with its pid: TestNewChildReusesPid"},
		{2200, superd, "a program that went to the background is not recorded as such"},
		{43477, superd, "a check that failed between two main processes counts for the second: TestCheckBetweenMainProcesses"},
		{9672, observer, "a reload lowers the start time-out of a hook that hangs before its exec"},
		{18508406537504343, observer, "recovery activates a configuration with another kind of readiness"},
		{280408, superd, "a live unwatched main process counts as one that was killed: TestUnwatchedProcessIsReportedUnkillable"},
		{294321, superd, "a start in no configuration continues after the journal was full: TestStartInNoConfiguration"},
		{319073, superd, "a missed run keeps the delay of a jitter that was lowered: TestMakeUpUnderALowerJitter in schedule"},
		{328511, superd, "a program that only a reload between two others had runs on: TestProgramInNoConfigurationIsRetired"},
		{85891, observer, "an ended main process counts as alive while its last messages are read"},
		{190561, observer, "the journal has no room for the effect of READY=1, and superd is killed"},
		{6003597, observer, "a restart that a stop cancelled is awaited after superd was killed"},
		{6052094, observer, "a new instance has the name of one that waited before superd was killed"},
		{6077968, observer, "as 6052094"},
		{225240, superd, "the wait for a start that was cancelled too late moves with start_timeout"},
		{427434, superd, "the limit of RELOADING=1 does not move: TestAppliedLive"},
		{612532, observer, "the first ping comes after the deadline, while messages are held"},
		{787943, observer, "as 612532"},
		{667730, observer, "a resource shortage is lost with the start record, by a full journal and a kill"},
		{90210004941, superd, "the reload prolongs start_timeout while its end waits for held messages"},
		{90210129667, superd, "an instance's record is removed before its start record, which loses its kill_mode"},
		{90210158815, superd, "a zombie with the pid of an unwatched main process is not reaped"},
		{90210193822, superd, "as 90210158815"},
		{512000158515, superd, "exit_when of a reload that another configuration follows at once"},
		{66683981324934284, observer, "as 612532"},
		{5037451, observer, "leftover processes of an earlier run answer the checks of the next one"},
		{45353739281563998, observer, "a removal that is queued again moves behind the answer to a command"},
		{5073081, observer, "as 5037451, of a replica that the unnumbered instance replaces"},
		{1795700000059681, observer, "a check during a reload that takes too long counts late, after that reload"},
		{1795700000103377, observer, "start_timeout is raised after a reload of the program was too long"},
		{1795669112856912, observer, "a start that completes a reload ends a scale"},
		{1795669112436787, superd, "a start counts as one by a later configuration: TestMergedDefinition in snapshot"},
		{1795700000283379, superd, "an instance keeps the definition of a reload between two others: TestDefinitionOfAReloadInBetween"},
		{1795710000493135, observer, "a main process of which superd has only the start record passes its place on"},
		{1796000000000768, superd, "the exit of a replaced main process is not acknowledged: TestAcknowledgesReplacedProcess in reaper"},
		{1796000000002884, superd, "a successor gives stop_command no time: TestStopCommandWithoutDeadline in instance"},
		{1796000000012066, superd, "a signal of superd prevents a restart after a reload: TestReevaluate in fsm"},
		{1797000000024393, superd, "a run that a reload makes a success counts for the start limit: TestReevaluate in fsm"},
		{1797000000026861, observer, "the fake host makes directories for a check, too"},
		{1797000000027682, observer, "a shutdown waits for what final_kill = false spares"},
		{1797000000041870, observer, "a forking program announces its command as its main process"},
		{1798000000038132, observer, "a reload is answered when the instance is removed"},
		{1798000000061634, observer, "what final_kill = false spares keeps the definition of its run"},
		{1798000000117186, observer, "as 1798000000061634, and another numbering of the program waits for it"},
		{1798000000092092, observer, "a restart is requested while the check of an earlier one is under way"},
		{1799000000028810, superd, "a successor kills by a later definition: TestKillSignalOfARun in instance"},
		{1799000000102828, observer, "a reload removes a stop_command during it, and superd is killed"},
		{1801000000001606, observer, "a process announces a main process that superd does not take, before its own is found"},
		{1801000000188526, observer, "a process of a run that ended in a crash may be the main process of the next one"},
		{1801000000180984, superd, "a reload hides the reason of a requested restart: TestReasonOfARequestedRestart in fsm"},
		{1801000000137672, observer, "a roll fails in the first turn of a successor"},
		{1801000000016559, observer, "a reload changes the outcome of a run that had counted as a failure"},
		{1804000000053662, observer, "a successor does not know a main process whose record was not written"},
		{1804000000002624, observer, "a roll that a crash of superd ends has restarted an instance"},
		{1806000000010669, observer, "the exit of a run is not needed when the start of a later one is on record"},
		{1806000000112134, observer, "a pid file may name a process that an earlier run has left"},
		{1806000000120690, observer, "a process ignored the stop signal before a reload let it live on"},
		{1806000000188300, observer, "a run of which only the start record tells counts as not stable"},
		{1807000000166408, observer, "a roll takes a replica that has ended in the same turn"},
		{1809000000008281, observer, "files change while superd ends"},
		{1809000000116089, observer, "an instance is started after a change of its files, and fails"},
		{1809000000085117, observer, "a reload gives a schedule to a program whose run has failed, and superd is killed"},
		{15580, observer, "a reload removes a stop_command that runs, and superd is killed"},
		{310, observer, "what the operator executes hangs in its spawn"},
		{1807000000109978, superd, "a program is started beside what the operator executed"},
		{1807000000008538, superd, "a run is over before a command that the operator executes is forked"},
		{1807000000125402, superd, "as 1807000000008538: it makes a private_tmp that nothing removes"},
		{1804000000070880, superd, "a roll that fails for its extra replica stays held: TestNext in rolling"},
		{1804000000086576, superd, "as 1804000000070880"},
		{3986, superd, "the private_tmp of a start that superd was killed during is not removed"},
		{1818000000283984, superd, "a roll without turns can't continue after a crash: TestContinueWithoutTurns in rolling"},
		{1816000000013807, observer, "a program that was removed while a connection waits is added again"},
	}
	// With log files: a program kept a file that another one waited for, and replacements kept a
	// desired state that the reload had changed
	for _, seed := range []uint64{24787, 9491, 22987, 20827} {
		t.Run(fmt.Sprint("log files ", seed), func(t *testing.T) {
			t.Parallel()
			if err := newHistory(seed, defect{logFiles: true}, false).run(); err != nil {
				t.Errorf("%v\nreplay with -sim.logfiles -sim.seed %d", err, seed)
			}
		})
	}
	for _, s := range seeds {
		t.Run(fmt.Sprint(s.seed), func(t *testing.T) {
			t.Parallel()
			if err := newHistory(s.seed, defect{}, false).run(); err != nil {
				t.Errorf("%v\nonce %s was wrong: %s\nreplay with -sim.seed %d", err, s.wrong, s.shows, s.seed)
			}
		})
	}
}
