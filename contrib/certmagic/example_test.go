package certmagic_test

import (
	"context"
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/caddyserver/certmagic"
	"github.com/redis/rueidis"

	holdfastcertmagic "github.com/holdfast-go/holdfast/contrib/certmagic"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	mgr, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	defer mgr.Close(ctx)
	dir, err := os.MkdirTemp("", "certificates")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	files := &certmagic.FileStorage{Path: dir}
	storage := holdfastcertmagic.Wrap(files, mgr, holdfastcertmagic.Options{Prefix: "tls:"})
	certmagic.Default.Storage = storage

	// What certmagic does when it needs a certificate.
	if err := storage.Lock(ctx, "issue_cert_shop.example.com"); err != nil {
		panic(err)
	}
	fmt.Println("locked:", server.Exists("tls:issue_cert_shop.example.com"))
	if err := storage.Unlock(ctx, "issue_cert_shop.example.com"); err != nil {
		panic(err)
	}
	// Output: locked: true
}
