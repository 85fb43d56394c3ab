// Package page holds the tests of what the page promises and only the engine can keep. It has no product code.
package page
