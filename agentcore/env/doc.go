// Package env is the seam between tools and the place where they act: files and commands of one machine.
//
// An Environment has a stable ID and a working directory. File operations go through a FileSystem, which the environment
// makes for one Scope (the directories that the caller's permissions allow); commands go through Exec. Tools use nothing
// else, so an environment elsewhere serves every tool and nothing falls back to the machine that the agent runs on.
//
//	permission.Guard ──is a──▶ Locator ──┐
//	                                     ▼
//	tool/builtin ──▶ Environment.Files(scope) ──▶ FileSystem ──▶ Dir, File     (env/local opens through os.Root)
//	             └─▶ Environment.Exec(command) ──▶ Exit, chunks                (not confined by scope: P-428)
//
// Scope is enforced by the environment. The local one asks a Locator, because only a path resolved and opened on the
// machine itself can be checked without a race; an environment elsewhere reads Roots and Confined and does the same there.
//
// Every failure is an *Error with a Code. A command that exits with another code than 0 is not a failure.
package env
