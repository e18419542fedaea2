// Package permission says which built-in tools exist in a turn and how far the file tools reach.
//
// Filter and Check are pure: policy and mode decide which built-in tools the model is offered; a host's own tools are
// never their business. A Guard is the reach: the working directory and the allowed directories, resolved once and kept
// open. It implements env.Locator; a Remote names the same reach for an environment that enforces it itself.
//
// A path is located in two steps: every link in it is resolved to pick the root it really is in, and the file is then
// opened through that root's os.Root. The first step allows links that stay inside, also absolute ones; the second makes a
// directory that is swapped for a link in between end in an error instead of outside. Two things are not confined: hard
// links, which no path shows, and bash, which is a process of the host (P-428).
//
//	read-only   read ls find grep                     inside the roots
//	workspace   read ls find grep write edit bash     inside the roots (the default)
//	auto        read ls find grep write edit bash     anywhere
//	plan mode   takes write, edit and bash away and adds ask_user
package permission
