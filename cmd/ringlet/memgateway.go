package main

import (
	"context"

	"ringlet/lab/mem"
	"ringlet/node/config"
)

type memGatewayCmd struct {
	Name    string       `arg:"" help:"Name of the door, by which programs find it."`
	Clients int          `default:"1" help:"How many programs may use it at a time, 1 to 8; each takes the place of a guest."`
	Data    config.Bytes `default:"1MiB" help:"Memory that transfers of each program are about, 8KiB to 1GiB."`
	Group   string       `default:"ringlet-mem" placeholder:"DIR" help:"Directory of the group, as the owner has it."`
}

// Run opens gateways until a signal comes.
func (c *memGatewayCmd) Run(ctx context.Context, to streams) error {
	warnOfGroup(to, c.Group)
	return mem.OpenGateways(ctx, mem.Gateways{
		Group:   c.Group,
		Name:    c.Name,
		Clients: c.Clients,
		Data:    int(c.Data),
	}, to.out)
}
