package clawjob

import (
	"fmt"
	"iter"
	"strings"
)

// pageSize is how many things are asked for at once.
const pageSize = 200

// name is the full name of a thing of an app: kind is "jobs" or "runs".
func (c *Client) name(kind, name string) (string, error) {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 4 && parts[0] == "apps" && parts[2] == kind:
		return name, nil
	case len(parts) == 2 && parts[0] != "" && parts[1] != "":
		return "apps/" + parts[0] + "/" + kind + "/" + parts[1], nil
	case len(parts) == 1 && name != "" && c.app != "":
		return "apps/" + c.app + "/" + kind + "/" + name, nil
	case len(parts) == 1 && name != "":
		return "", fmt.Errorf("%q names no app; write \"app/%s\", or give the client an app", name, name)
	default:
		return "", fmt.Errorf("%q is no name; write \"app/name\" or \"apps/app/%s/name\"", name, kind)
	}
}

// parent is the full name of an app; empty means the client's, or all when it has none.
func (c *Client) parent(app string) string {
	switch {
	case strings.HasPrefix(app, "apps/"):
		return app
	case app != "":
		return "apps/" + app
	case c.app != "":
		return "apps/" + c.app
	default:
		return "apps/-"
	}
}

// pages reads page after page as they are asked for.
func pages[T any](fetch func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		token := ""
		for {
			items, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}
