package lockmgr

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// urlParameters are what a URL may have behind its question mark.
var urlParameters = []string{
	"addr", "client_cache", "client_name", "db", "dial_timeout", "master_set", "max_retries", "protocol", "skip_verify", "write_timeout",
}

// checkURL returns an error for a URL that cannot be meant as written. A special character in a
// password, such as # or /, makes a part of the password the host, the path or a parameter. The
// client would dial such a host, and name the host in errors. No error of checkURL has a part of
// the URL.
func checkURL(text string) error {
	why := urlFault(text)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: the URL can't be read: %s. Its form is redis://user:password@host:6379/0. In the password, / is written as %%2F, # as %%23 and @ as %%40", ErrInvalidOption, why)
}

// urlFault returns what is wrong with a URL, or "".
func urlFault(text string) string {
	const noScheme = "it begins with none of redis://, rediss://, valkey://, valkeys:// and unix://"
	u, err := url.Parse(text)
	switch {
	case err != nil && !strings.Contains(text, "://"):
		return noScheme
	case strings.Contains(text, "#"):
		return "it has a #"
	case err != nil:
		return "it is no URL"
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	_, authority, _ := strings.Cut(text, "//")
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	unknown := func(key string) bool { return !slices.Contains(urlParameters, key) }
	switch {
	case !slices.Contains([]string{"redis", "rediss", "valkey", "valkeys", "unix"}, u.Scheme):
		return noScheme
	case strings.Count(authority, "@") > 1:
		return "it has an @ in the user, in the password or in the host"
	case err != nil, slices.ContainsFunc(slices.Collect(maps.Keys(parameters)), unknown):
		return "it has a parameter that is not known"
	case u.Scheme != "unix":
		return cmp.Or(addressFault(u, parameters["addr"]), databaseFault(u, parameters), parameterFault(u, parameters))
	case u.Host != "" || u.Path == "" || parameters.Has("addr") || parameters.Has("master_set"):
		return "a unix URL has a path and no host"
	}
	return parameterFault(u, parameters)
}

// parameterFault returns what is wrong with the parameters of a URL, or "". The client would use
// one of two values, and pass over the rest.
func parameterFault(u *url.URL, parameters url.Values) string {
	isNegative := func(key string) bool { return strings.HasPrefix(parameters.Get(key), "-") }
	for key, values := range parameters {
		if len(values) > 1 && key != "addr" {
			return "it has a parameter twice"
		}
	}
	switch {
	case parameters.Has("skip_verify") && u.Scheme != "rediss" && u.Scheme != "valkeys":
		return "it has skip_verify without TLS: rediss:// is with TLS"
	case parameters.Has("protocol") && !slices.Contains([]string{"2", "3"}, parameters.Get("protocol")):
		return "the protocol is not 2 or 3"
	case isNegative("dial_timeout"), isNegative("write_timeout"):
		return "a timeout is negative"
	}
	return ""
}

// addressFault returns what is wrong with the address of a URL or with the further addresses, or
// "".
func addressFault(u *url.URL, further []string) string {
	switch {
	case u.Opaque != "" || !isHost(u.Hostname()):
		return "it has no host, or several"
	case strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "["):
		return "an IPv6 address is not in brackets"
	case strings.HasSuffix(u.Host, ":") || u.Port() != "" && !isPort(u.Port()):
		return "the port is not from 1 to 65535"
	case slices.ContainsFunc(further, func(addr string) bool {
		host, port, err := net.SplitHostPort(addr)
		return err != nil || !isHost(host) || !isPort(port)
	}):
		return "an addr is not host:port"
	}
	return ""
}

// databaseFault returns what is wrong with the database of a URL, or "".
func databaseFault(u *url.URL, parameters url.Values) string {
	database, hasDatabase := strings.CutPrefix(u.Path, "/")
	switch {
	case hasDatabase && !isNumber(database), parameters.Has("db") && !isNumber(parameters.Get("db")):
		return "the database is no number"
	case hasDatabase && parameters.Has("db"):
		return "it has two databases"
	}
	return ""
}

// isHost reports whether a text can be the name or the address of one host.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !strings.ContainsAny(host, " ,;:@/?#%&=\\")
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}
