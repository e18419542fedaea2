// Package specscript reads stories: tests of a behaviour that are written as text.
//
//	# Why this must be so, in a sentence. INV-12, P-111.
//	model: call bash {"command":"make"} | text "built; tests pass"
//	submit r1 "build it" ; until tool bash started
//	submit r2 "run the tests too" mode=steer ; until idle
//	-- want --
//	user r1 "build it"
//	…
//
// Above the marker stand the reason, settings ("key: value") and commands; below it, line by line, what must come out.
// What keys and commands mean is the business of the test that plays the story.
package specscript
