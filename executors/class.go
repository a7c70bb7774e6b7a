package executors

// Class is the failure class of a step or a task: the word that decides about
// retry, caching and ranking. The zero Class means that nothing failed. The
// classes here are those a supervisor can find out by itself; a client adds
// its own (package stdlib/result has the one table of all).
type Class string

// Classes that the runner assigns.
const (
	ClassStartFailed  Class = "start_failed"  // the server could not be executed at all
	ClassServerDied   Class = "server_died"   // it ended before its work was done
	ClassOOM          Class = "oom"           // it ended for lack of memory, host or GPU
	ClassUnhealthy    Class = "unhealthy"     // it was not healthy within its deadline
	ClassPortInUse    Class = "port_in_use"   // its port belongs to somebody else
	ClassNotOurs      Class = "not_ours"      // somebody else answered on its endpoint
	ClassClientFailed Class = "client_failed" // the client broke without a verdict of its own
	ClassTimeout      Class = "timeout"       // a step passed its deadline
	ClassNoOutput     Class = "no_output"     // a declared output is missing or empty
	ClassStopFailed   Class = "stop_failed"   // the tree would not end: something is left
	ClassChanged      Class = "input_changed" // what it reads changed while it ran: nothing of it is stored
	ClassInterrupted  Class = "interrupted"   // we were told to stop before it was done
	ClassPreempted    Class = "preempted"     // its place was taken away: by a higher priority, or with its node
	ClassLost         Class = "lost"          // the executor lost sight of the task
)
