package server

import (
	"net/http"

	"superd/control"
	"superd/procs"
)

// sockets sends the state of all sockets.
func (s *Server) sockets(w http.ResponseWriter, r *http.Request) error {
	answer := make(chan []procs.SocketStatus, 1)
	s.options.Post(func() {
		s.options.Supervisor.Sockets(func(all []procs.SocketStatus) { answer <- all })
	})
	select {
	case all := <-answer:
		return s.answer(w, http.StatusOK, socketList(all))
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func socketList(all []procs.SocketStatus) []control.Socket {
	list := make([]control.Socket, len(all))
	for i, st := range all {
		one := control.Socket{
			Socket: st.Socket, Address: st.Where(), Programs: listed(st.Programs), Open: st.Open, Leaving: st.Leaving,
			Problem: present(st.Failure), Holders: []control.SocketHolder{},
		}
		if st.RetryIn != nil {
			one.RetryIn = new(st.RetryIn.Seconds())
		}
		if st.Queue.Known {
			one.Waiting, one.Backlog = new(st.Queue.Waiting), present(st.Queue.Most)
		}
		for _, p := range st.Queue.Holders {
			one.Holders = append(one.Holders, control.SocketHolder(p))
		}
		if st.MaxConnections > 0 {
			one.Connections, one.MaxConnections = new(st.Connections), new(st.MaxConnections)
		}
		one.Refused, one.RefusedFrom = present(st.Refused.Count), present(st.Refused.Source)
		list[i] = one
	}
	return list
}
