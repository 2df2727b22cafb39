package schema

// Unique makes a one-off job the only one of its key for a while. Package bucketer says what that
// promises.
type Unique struct {
	// By is what makes two jobs the same, as it was stated; never empty.
	By []string `json:"by"`
	// Window is for how long, from the creation of the job on.
	Window Duration `json:"window"`
	// Key is the hash of what By names: jobs of one tenant with the same key are the same.
	Key string `json:"key"`
}
