package mutants

// accepted are changes that no test can or need notice, and why.
var accepted = map[string]string{}
