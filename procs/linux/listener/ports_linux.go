package listener

import "golang.org/x/sys/unix"

// OnPorts returns the processes that listen on a TCP port, of any address of this network
// namespace, by port, as far as they can be seen. A port without any process that can be seen has
// an empty list if it is in use.
func OnPorts(ports []int) (map[int][]Process, error) {
	wanted := map[int]bool{}
	for _, port := range ports {
		wanted[port] = true
	}
	found, links := map[int][]Process{}, map[string]bool{}
	of := map[string]int{} // port of a link
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		sockets, err := ipSockets(family, false, listening)
		if err != nil {
			return nil, err
		}
		for _, s := range sockets {
			port := int(s.at.Port())
			if !wanted[port] {
				continue
			}
			link := socketLink(s.inode)
			links[link], of[link] = true, port
			found[port] = nil
		}
	}
	eachHolder(links, func(p Process, link string) {
		port := of[link]
		if all := found[port]; len(all) == 0 || all[len(all)-1] != p {
			found[port] = append(all, p)
		}
	})
	return found, nil
}
