package transparency_test

// differences are the tests that fail through a Transport, each with the reason why it
// should.
var differences = map[string]string{}
