package renewal_test

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/renewal"
)

// held is a lock that is held. It contains its place in the Map.
type held struct {
	name string
	slot renewal.Entry
}

func (h *held) RenewalEntry() *renewal.Entry { return &h.slot }

func Example() {
	const lease = 24 * time.Second
	const tick = lease / 3
	m := renewal.NewMap[*held](tick)

	orders, users := &held{name: "orders"}, &held{name: "users"}
	m.Schedule(orders, 0, tick)
	m.Schedule(users, 300*time.Millisecond, 300*time.Millisecond+tick)
	m.Remove(users) // released

	now, _ := m.Next() // sleep until then
	for _, h := range m.Due(now, nil) {
		fmt.Println("renew", h.name, "at", now)
		// Once the renewal is confirmed; now is when it was sent.
		m.Schedule(h, now, now+tick)
	}
	// Output: renew orders at 8s
}
