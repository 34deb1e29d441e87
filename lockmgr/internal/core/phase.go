package core

// Phase returns the phase of a name: idle, asking, waiting, held, passing or
// releasing. A name that the machine does not know is idle.
func (m *Machine) Phase(name string) string {
	if l := m.locks[name]; l != nil {
		return l.phase.String()
	}
	return idle.String()
}
