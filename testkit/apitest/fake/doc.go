// Command fake serves the run control's API and page for a fake partition (package apitest), for work on the page and
// on `ringlet ctl`. It makes keys for a viewer, an operator and an admin, and prints its addresses.
//
// Start it with --page and --api, and end it with Ctrl-C. POST /fake/lose?node=n2 on the page's address makes a node
// fail.
package main
