import type { Entries } from './entry.ts'

/** Problems of consoles and of shells in guests. */
export const consoles = {
  rejections: {
    vm_not_running: {
      status: 409,
      title: 'The VM does not run, so it has no console',
      meaning:
        'The VM has no console session and none before it in this boot of the host, or no shell to log in to; or it runs with a console that is not stored, and `detail` says so.',
      remedy:
        'Start it, or open the console with `follow=true` to wait for its next start. If it runs, stop it first. One that sleeps is woken for a shell; if that fails, `observed.error` says why.',
      example: 'web-1 is stopped: start it, or follow its console to wait for its next start',
      writtenBy: ['src/api/console/open-viewer.ts'],
      advice: [
        'vmhostctl vm start {name}, then run the command again',
        'vmhostctl console {name} --follow waits for its next start',
      ],
    },
    console_viewers_full: {
      status: 429,
      retryAfterSeconds: 5,
      title: 'The console of the VM has reached its limit of viewers',
      meaning:
        'Sixteen viewers watch the console of this VM already, or hold a shell in it; or twelve of clients that are not controllers do.',
      remedy: 'Close one of them, or try again after `Retry-After` seconds.',
      example: '16 viewers watch the console of web-1 already',
      writtenBy: ['src/api/console/open-viewer.ts'],
      advice: ['another viewer must leave the console of {name} first'],
    },
    ssh_host_key_changed: {
      status: 409,
      title: 'The guest has another SSH host key than before',
      meaning:
        'The guest answers with another SSH host key than the one that was pinned at the first connection. Nothing that a viewer typed was sent to it.',
      remedy:
        'Find out why. If the guest was set up again, connect again with `accept_host_key=` and the fingerprint that `detail` names.',
      example:
        'the guest of web-1 has the host key SHA256:uNiVztksCsDhcc0u9e8BrSJ5/HQWNwW1Vp5oRDHbFcE, not the one it had (SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8): find out why; to accept it, connect with accept_host_key=SHA256:uNiVztksCsDhcc0u9e8BrSJ5/HQWNwW1Vp5oRDHbFcE',
      writtenBy: ['src/api/console/open-viewer.ts'],
      advice: [
        'another machine may be answering in place of the guest; nothing that you typed was sent to it',
        'if the guest was set up again, this accepts its new key:',
        '  vmhostctl console {name} --ssh --accept-host-key {fingerprint}',
      ],
    },
    console_places_exhausted: {
      status: 409,
      title: 'VMs that never sleep have reached their limit of console places',
      meaning:
        'The VM should run or be paused and never sleep, and all console places that such VMs may hold are taken: `consoles.places_held` of `GET /v1/sync`.',
      remedy: 'Stop one of them, let one sleep (`sleep_after_idle_seconds` above 0), or use another host.',
      example:
        'VMs that never sleep hold all the console places they may have, 1575: stop one, or let one sleep (sleep_after_idle_seconds above 0)',
      writtenBy: ['src/commands/capacity/admit.ts'],
    },
  },
  faults: {
    console_unprotected: {
      retry: 'backoff',
      title: 'The console of the VM could not be made to outlive the daemon',
      meaning:
        'The console master could not be stored with systemd, or its history not be made, so the VM is not started: its console would not outlive the daemon, nor would the VM. A VM that runs ends with the daemon.',
      remedy:
        "Check `FileDescriptorStoreMax=` and `NotifyAccess=main` of the daemon's unit, and that there is room in `/run`.",
      example:
        'storing console-web-1 with systemd: systemd did not keep it beside 12 others: is FileDescriptorStoreMax= used up?',
      writtenBy: ['src/host/systemd/descriptor-store.ts'],
    },
    no_console_place: {
      retry: 'backoff',
      title: 'The descriptor store has no place for another console',
      meaning:
        'The VM should start or wake, and as many VMs run as this host has places for console masters: `consoles.places_total` of `GET /v1/sync`.',
      remedy:
        'Nothing: it starts as soon as another VM stops or falls asleep. Stop some, or give some an idle timeout.',
      example:
        'storing console-web-1 with systemd: all 1750 places are taken by VMs that run; it is tried again when one is free',
      writtenBy: ['src/host/systemd/descriptor-store.ts'],
    },
  },
} as const satisfies Entries
