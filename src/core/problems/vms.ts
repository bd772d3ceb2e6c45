import type { Entries } from './entry.ts'

/** Problems of a VM as a whole: its life, its unit, and the monitor that runs its guest. */
export const vms = {
  rejections: {
    vm_deleting: {
      status: 409,
      title: 'The VM is being deleted',
      meaning: 'The VM is being deleted and takes no changes.',
      remedy: 'Poll until GET answers 404, then create it again if you want it.',
      example: 'web-1 is being deleted and takes no further changes',
      writtenBy: ['src/commands/vm/store-desired.ts'],
      advice: { vm: ['vmhostctl vm wait {name} --for gone ends when it is gone; then the name is free'] },
    },
    vm_not_stopped: {
      status: 409,
      title: 'The VM must be stopped for this change',
      meaning:
        'The VM is not stopped, and the request changes something that its guest was started with: CPU, memory, addresses, kernel, initrd, kernel arguments, user data, keys or the root disk.',
      remedy:
        'Set its power to `stopped` and wait until the generation of that is reached, then try again. If it is not reached, `observed.error` says what keeps the stop from being carried out.',
      example:
        'CPU and memory of web-1 can change only while it is stopped, and it is running: set its power to stopped, and wait until it is',
      writtenBy: ['src/commands/vm/store-desired.ts', 'src/commands/vm/reshape.ts'],
      advice: ['vmhostctl vm stop {name} --wait, then run the command again'],
    },
    vm_stopped: {
      status: 409,
      title: 'The VM is to be stopped',
      meaning: 'The VM is stopped, or about to be, so it has no guest to reboot.',
      remedy: 'Set its power to `running`: it boots.',
      example: 'web-1 is to be stopped, and cannot reboot: start it',
      writtenBy: ['src/commands/vm/set-power.ts'],
      advice: { vm: ['vmhostctl vm start {name} boots it'] },
    },
    vm_protected: {
      status: 409,
      title: 'The VM is protected against deletion',
      meaning: 'The VM has `protected: true`, which also protects its disk from a rebuild.',
      remedy: 'Set it to false with `PUT …/metadata`, then delete or rebuild the VM.',
      example: 'web-1 is protected: set "protected" to false in PUT /v1/vms/web-1/metadata, then delete it',
      writtenBy: ['src/commands/vm/store-desired.ts', 'src/commands/vm/delete-vm.ts'],
      advice: ['vmhostctl vm set {name} --protected no, then run the command again'],
    },
    monitor_not_offered: {
      status: 422,
      title: 'The host does not offer this monitor',
      meaning:
        'The VM asks for a monitor that this host does not offer: its program is not installed or is too old, or it needs KVM.',
      remedy:
        'Leave `monitor` out, ask for one that `host.monitors` of `/v1/sync` offers, or place the VM on another host. To offer it here, do what the error names.',
      example:
        'this host does not offer firecracker: firecracker is not a program that can be run; it offers qemu',
      writtenBy: ['src/commands/capacity/admit.ts', 'src/core/monitor/choose-monitor.ts'],
      advice: ['--monitor names another one', 'vmhostctl sync shows which monitors it offers'],
    },
  },
  faults: {
    systemd_unavailable: {
      retry: 'backoff',
      title: 'systemd does not answer over D-Bus',
      remedy: 'See `systemctl status dbus`; the daemon reconnects by itself.',
      example: 'inspecting vmhost-web-1.service: connecting to systemd: connect ECONNREFUSED [path]',
      writtenBy: ['src/host/systemd/systemd-bus.ts', 'src/host/systemd/systemd-units.ts'],
      quotes: ['connect ECONNREFUSED [path]'],
      advice: ['on that host: systemctl status dbus; the daemon connects again by itself'],
    },
    unit_start_failed: {
      retry: 'backoff',
      title: 'systemd could not start the unit of the VM',
      remedy:
        'See `systemctl status vmhost-<id>` and its journal. If the cause is `ENOSPC`, make room in `/run`.',
      example: 'starting vmhost-web-1.service: the job ended as timeout',
      writtenBy: ['src/host/systemd/systemd-units.ts'],
    },
    unit_stop_failed: {
      retry: 'backoff',
      title: 'systemd could not stop the unit of the VM',
      remedy:
        'See `systemctl status vmhost-<id>`; a process in uninterruptible sleep points to a storage fault.',
      example: 'stopping vmhost-web-1.service: the job ended as timeout',
      writtenBy: ['src/host/systemd/systemd-units.ts'],
    },
    unit_foreign: {
      retry: 'backoff',
      title: 'The unit of that name belongs to another VM of that id',
      meaning:
        'A unit of the name of this VM runs, and its mark is of another VM: one of another state directory, or one of the same id that was created at another time. The daemon neither takes it over nor ends it.',
      remedy:
        'If the other VM is wanted, put a newer copy of the state directory back. Otherwise stop the unit by hand: `systemctl stop vmhost-<id>`. Or delete the new VM: that leaves the unit alone.',
      example:
        'there is a unit with the name of web-1, and it belongs to a VM web-1 of 2026-03-01T09:00:00.000Z, and this one was created at 2030-01-01T12:00:00.000Z; stop that unit by hand, or delete VM web-1',
      writtenBy: ['src/core/plan/plan.ts', 'src/core/world/world.ts'],
    },
    vm_exited: {
      retry: 'backoff',
      title: 'The monitor of the VM ended by itself',
      meaning:
        'The monitor of the VM ended by itself: the guest powered off or panicked, or the monitor failed. The VM is started again later.',
      remedy:
        'Read `observed.last_exit`, the console and the journal of `vmhost-<id>`. If the guest was meant to end, set `restart_policy`, or ask for `stopped`.',
      example: 'the monitor ended: exit-code, status 156: its console was closed (SIGHUP) (it ran 12.3 s)',
      writtenBy: [
        'src/reconcile/note-exit.ts',
        'src/core/status/launch.ts',
        'src/core/monitor/exit-status.ts',
      ],
    },
    monitor_missing: {
      retry: 'backoff',
      title: 'The monitor program is not installed or cannot be run',
      remedy: 'Install it, or set `monitor.program`.',
      example: 'asking qemu-system-x86_64 for its version: running [path]: start [path]: ENOENT',
      writtenBy: [
        'src/host/qemu/qemu-version.ts',
        'src/host/monitors/installed-program.ts',
        'src/host/exec/exec.ts',
      ],
      quotes: ['start [path]: ENOENT'],
    },
    monitor_unreachable: {
      retry: 'backoff',
      title: 'The monitor of the VM does not answer',
      meaning: 'The monitor runs but does not answer on its socket.',
      remedy: 'See the journal of `vmhost-<id>`. Ask for `stopped`, then `running`, to start it again.',
      example: 'pausing VM web-1: control connection lost: ECONNREFUSED',
      writtenBy: ['src/host/qemu/qemu-monitor.ts', 'src/host/monitors/monitor-error.ts'],
    },
    monitor_refused: {
      retry: 'backoff',
      title: 'The monitor of the VM refused a command',
      meaning: 'The monitor answered a command with an error, or without what was requested.',
      remedy: 'The error quotes its words.',
      example: 'resuming VM web-1: Resetting the Virtual Machine is required',
      writtenBy: ['src/host/qemu/qemu-monitor.ts', 'src/host/monitors/monitor-error.ts'],
      quotes: ['Resetting the Virtual Machine is required'],
    },
    guest_over: {
      retry: 'backoff',
      title: 'The guest has ended, and its monitor still runs',
      meaning: 'The guest has ended (it powered off or panicked), and its monitor still runs.',
      remedy: 'Nothing: the monitor is ended. Read the console for why.',
      example: 'the unit is active, but its monitor says guest-panicked',
      writtenBy: ['src/core/status/partial-faults.ts'],
    },
    processes_left: {
      retry: 'backoff',
      title: 'Processes are left of a VM whose unit is gone',
      meaning: 'The unit of the VM is gone, yet processes are left in its control group.',
      remedy: 'Nothing: they are ended before anything else opens the disk.',
      example: 'the unit is gone, yet processes are left in its control group: 4711, 4712',
      writtenBy: ['src/core/status/partial-faults.ts', 'src/core/world/world.ts'],
    },
    wait_overdue: {
      retry: 'backoff',
      title: 'The host takes longer than expected',
      meaning: 'A state that should pass takes longer than its deadline. The error says what is waited for.',
      remedy:
        'See `systemctl status vmhost-<id>`; a process in uninterruptible sleep points to a storage fault. For memory: stop VMs, or let them sleep.',
      example: 'stopping for 30 s, waiting for the unit to stop',
      writtenBy: ['src/reconcile/pass.ts', 'src/core/plan/plan-power.ts'],
    },
  },
} as const satisfies Entries
