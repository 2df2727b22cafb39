// Package admission decides which attempts may start now.
package admission
