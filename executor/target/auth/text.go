package auth

import "crypto/x509"

// Text returns the value in force of a secret, such as a password. An error is a Fault.
func Text(name string, v Values) (string, error) {
	value, err := v.newest(name)
	return string(value), err
}

// Roots returns the certificates that a secret holds, as PEM. An error is a Fault.
func Roots(name string, v Values) (*x509.CertPool, error) {
	authorities, err := v.newest(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, faultf("the secret %s holds no certificate, as PEM", name)
	}
	return pool, nil
}
