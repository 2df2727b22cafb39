package main

import (
	"fmt"
	"strconv"
	"strings"
)

// parseRoles reads the values of --roles: "a,b" is for every node, "2=a,b" for the second one; the
// latter wins wherever it stands. The result has an element for each node, nil where nothing was
// said.
func parseRoles(values []string, nodes int) ([][]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	every := []string(nil)
	one := map[int][]string{}
	for _, value := range values {
		number, list, single := strings.Cut(value, "=")
		if !single {
			every = strings.Split(value, ",")
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > nodes {
			return nil, fmt.Errorf("roles %q: %q is not a node from 1 to %d", value, number, nodes)
		}
		one[n] = strings.Split(list, ",")
	}
	roles := make([][]string, nodes)
	for i := range roles {
		roles[i] = every
		if list, ok := one[i+1]; ok {
			roles[i] = list
		}
	}
	return roles, nil
}
