// Command fake serves the run control's API and whatever page is mounted on it over a partition that is none, for work
// on the page and on `ringlet ctl`. It makes keys for a viewer, an operator and an admin, and prints where it can be
// entered.
//
// Start it with --page and --api, and end it with Ctrl-C. POST /fake/lose?node=n2 on the page's address strikes a node
// with a fault. It promises what package apitest does: nothing of a real partition.
package main
