package top

// helpText is what ? shows. docs/top.md has the same table.
const helpText = `Up Down PgUp PgDn Home End  move (also j and k)
/         filter by name, group, state or host; Escape clears the filter
s  S      sort by the next column; reverse the order
Space     mark a program; commands are for all marked ones; Escape clears the marks

l         log of the program below the table; Enter: in full
w         why it is in its state
t         its processes
e  E      its events; all events
g         dependencies, and what blocks what
Tab       move in the pane instead of the table
?         this help

u  d      start; stop
r  R      restart; rolling restart
x         send a signal

In a pane: the keys above move, Left and Right move sideways, / searches upwards, n finds the next
line above and N below. To scroll up pauses a log, End follows it again. Escape goes back.

y         copy the name (n), the reason (r) or the last line (l) by the terminal; in a pane: the
          line found, or the last one shown
m         mouse on or off; off, the terminal selects text
Ctrl-L    draw again
Ctrl-Z    suspend
q         quit (also Ctrl-C)`
