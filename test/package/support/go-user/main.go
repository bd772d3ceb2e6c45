// A program of a user of the client for Go. It prints what becomes of each call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"example.org/vmhostd"
)

type stage struct {
	URL, CA, Cert, Key, Part string
	Names                    []string
	Body                     vmhostd.CreateVm
}

func outcome(err error) string {
	var refused *vmhostd.APIError
	var unexpected *vmhostd.UnexpectedAnswer
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &refused):
		return fmt.Sprintf("%s %d %v", refused.Code, refused.Status, refused.RetryAfter)
	case errors.As(err, &unexpected):
		return fmt.Sprintf("unexpected %d", unexpected.Status)
	case errors.Is(err, vmhostd.ErrSilent):
		return "silent"
	}
	return "lost"
}

func answerOf[T any](answer *vmhostd.Answer[T], err error) string {
	if err != nil {
		return outcome(err)
	}
	if answer.Data == nil {
		return fmt.Sprintf("%d without data", answer.Status)
	}
	text, _ := json.Marshal(answer.Data)
	return fmt.Sprintf("%d with %d bytes", answer.Status, len(text))
}

func ask(ctx context.Context, client *vmhostd.Client, names []string) any {
	seen := map[string]string{}
	for _, name := range names {
		seen[name] = answerOf(client.GetVm(ctx, name, vmhostd.GetVmOptions{}))
	}
	return seen
}

func logs(ctx context.Context, client *vmhostd.Client, names []string) any {
	seen := map[string]string{}
	for _, name := range names {
		seen[name] = answerOf(client.GetConsoleLog(ctx, name, vmhostd.GetConsoleLogOptions{}))
	}
	return seen
}

func repeat(ctx context.Context, client *vmhostd.Client, names []string) any {
	calls := map[string]func(name, ifMatch string) (*vmhostd.Answer[vmhostd.Vm], error){
		"metadata": func(name, ifMatch string) (*vmhostd.Answer[vmhostd.Vm], error) {
			return client.SetVmMetadata(ctx, name, vmhostd.SetMetadata{}, vmhostd.SetVmMetadataOptions{IfMatch: ifMatch})
		},
		"reboot": func(name, ifMatch string) (*vmhostd.Answer[vmhostd.Vm], error) {
			return client.RebootVm(ctx, name, vmhostd.Reboot{}, vmhostd.RebootVmOptions{IfMatch: ifMatch})
		},
		"rebuild": func(name, ifMatch string) (*vmhostd.Answer[vmhostd.Vm], error) {
			return client.RebuildVm(ctx, name, vmhostd.Rebuild{}, vmhostd.RebuildVmOptions{IfMatch: ifMatch})
		},
	}
	seen := map[string][]string{}
	for _, name := range names {
		for kind, call := range calls {
			for _, ifMatch := range []string{"", `"7"`} {
				// The first request makes a connection, and the second finds it closed.
				client.HTTP.CloseIdleConnections()
				key := strings.TrimSpace(name + " " + kind + " " + ifMatch)
				for range 2 {
					answer, err := call(name, ifMatch)
					if err != nil {
						seen[key] = append(seen[key], outcome(err))
					} else {
						seen[key] = append(seen[key], fmt.Sprint(answer.Status))
					}
				}
			}
		}
	}
	return seen
}

func events(ctx context.Context, client *vmhostd.Client, names []string) any {
	seen := map[string][]string{}
	for _, name := range names {
		options := vmhostd.StreamEventsOptions{After: vmhostd.Ptr[int64](0), VMID: name}
		if name == "stream-silent" {
			options.Silence = 300 * time.Millisecond
		}
		end := "end"
		for message, err := range client.StreamEvents(ctx, options) {
			switch {
			case err != nil:
				end = outcome(err)
			case message.Start != nil:
				seen[name] = append(seen[name], fmt.Sprintf("start %d %v, after %d", message.Start.After, message.Start.Missed, message.After))
			case message.Event != nil:
				seen[name] = append(seen[name], fmt.Sprintf("event %d, after %d", message.Event.Sequence, message.After))
			default:
				seen[name] = append(seen[name], fmt.Sprintf("after %d", message.After))
			}
		}
		seen[name] = append(seen[name], end)
	}
	return seen
}

func use(ctx context.Context, client *vmhostd.Client, body vmhostd.CreateVm) any {
	_, missing := client.GetVm(ctx, "web-1", vmhostd.GetVmOptions{})
	_, invalid := client.CreateVm(ctx, "web-1", vmhostd.CreateVm{}, vmhostd.CreateVmOptions{})
	made, err := client.CreateVm(ctx, "web-1", body, vmhostd.CreateVmOptions{})
	check(err)
	metadata := vmhostd.SetMetadata{Labels: map[string]string{"tier": "web"}, Protected: vmhostd.Ptr(true)}
	_, err = client.SetVmMetadata(ctx, "web-1", metadata, vmhostd.SetVmMetadataOptions{})
	check(err)
	_, kept := client.DeleteVm(ctx, "web-1", vmhostd.DeleteVmOptions{})
	dots := []string{}
	for _, id := range []string{".", ".."} {
		_, err := client.WithdrawOffer(ctx, id, vmhostd.WithdrawOfferOptions{})
		dots = append(dots, outcome(err))
	}
	_, stale := client.SetVmMetadata(ctx, "web-1", metadata, vmhostd.SetVmMetadataOptions{IfMatch: made.ETag})
	vm, err := client.GetVm(ctx, "web-1", vmhostd.GetVmOptions{})
	check(err)
	unchanged, err := client.GetVm(ctx, "web-1", vmhostd.GetVmOptions{IfNoneMatch: vm.ETag})
	check(err)
	kinds := []string{}
	for message, err := range client.StreamEvents(ctx, vmhostd.StreamEventsOptions{After: vmhostd.Ptr[int64](0), Once: true}) {
		check(err)
		if message.Event != nil {
			kinds = append(kinds, message.Event.Kind)
		}
	}
	list, err := json.Marshal(vmhostd.SnapshotUrls{})
	check(err)
	var none []string
	servers, err := json.Marshal(vmhostd.SetNetwork{NameServers: vmhostd.Some(vmhostd.List[string](none))})
	check(err)
	return map[string]any{
		"servers": json.RawMessage(servers),
		"list": json.RawMessage(list),
		"missing": outcome(missing), "invalid": outcome(invalid), "made": made.Status, "kept": outcome(kept), "dots": dots,
		"stale": outcome(stale), "labels": vm.Data.Labels, "unchanged": unchanged.Status, "events": kinds,
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	var on stage
	check(json.Unmarshal([]byte(os.Getenv("STAGE")), &on))
	client, err := vmhostd.NewClient(on.URL, on.CA, on.Cert, on.Key)
	check(err)
	ctx := context.Background()
	if on.Part == "use" {
		check(json.NewEncoder(os.Stdout).Encode(use(ctx, client, on.Body)))
		return
	}
	parts := map[string]func(context.Context, *vmhostd.Client, []string) any{"ask": ask, "logs": logs, "repeat": repeat, "events": events}
	check(json.NewEncoder(os.Stdout).Encode(parts[on.Part](ctx, client, on.Names)))
}
