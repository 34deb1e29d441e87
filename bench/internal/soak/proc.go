package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-go/holdfast/internal/child"
)

// A proc is one life of a worker process.
type proc struct {
	life   uint32
	child  *child.Process
	in     io.WriteCloser
	report *reporter
	read   chan struct{} // closed when all its records were read
	err    error         // of reading them; read after read
}

// spawn starts a worker for a slot.
func (run *run) spawn(slot int) (*proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	life := run.lives.Add(1)
	p := &proc{
		life: life, read: make(chan struct{}),
		report: newReporter(run.judge, life),
	}
	cmd := exec.Command(self, WorkerArg)
	child.Detach(cmd) // from Ctrl-C: the run ends its workers itself
	cmd.Stderr = os.Stderr
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.child, err = child.Start(cmd); err != nil {
		return nil, err
	}
	// The child has its own ends, these would keep the pipes open.
	go func() {
		defer close(p.read)
		defer out.Close()
		p.err = readRecords(out, p.report.take)
	}()
	err = json.NewEncoder(p.in).Encode(job{
		Addrs: run.addrs(slot), Cluster: run.Cluster, Acks: run.Acks, Life: life, Workers: run.Workers, Names: run.Names, Seed: run.Seed,
		Registers: filepath.Join(run.dir, registersFile), Lease: run.Lease, Client: run.Client, Breaking: run.breaking(),
	})
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("soak: a worker does not listen: %w", err)
	}
	return p, nil
}

// replace kills the worker of a slot and starts another.
func (run *run) replace(slot int) error {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.procs[slot].kill()
	run.procs[slot].report.dead()
	p, err := run.spawn(slot)
	if err == nil {
		run.procs[slot] = p
	}
	return err
}

// kill ends a worker as a crash would, and waits until all its records are read.
func (p *proc) kill() {
	p.child.Kill()
	<-p.read
	p.in.Close()
}

// stop tells a worker to come to rest. One that has ended by itself does not hear it; await says
// so.
func (p *proc) stop() { _, _ = io.WriteString(p.in, word+"\n") }

// await waits for the end of a worker that was told to stop, and says what was wrong with it.
// giveUp is closed when it has had enough time.
func (p *proc) await(giveUp <-chan struct{}) error {
	defer p.in.Close()
	select {
	case <-p.read:
	case <-giveUp:
		p.kill()
		return errors.New("did not end, it was killed")
	}
	<-p.child.Done()
	switch {
	case p.child.Err() != nil:
		return fmt.Errorf("ended by itself: %w", p.child.Err())
	case p.err != nil:
		return p.err
	case p.report.words == nil:
		return errors.New("ended without its last words")
	}
	return nil
}
