import { FakeGuestShells, fakeHostKey } from '../fakes/fake-guest-shells.ts'
import { SshShells } from '../../src/host/ssh/ssh-shells.ts'
import { guestShellsContract } from './guest-shells.contract.ts'
import { newSshKey, SshServer } from './ssh-server.ts'

guestShellsContract('fake guest shells', () => {
  const address = '192.0.2.10'
  const shells = new FakeGuestShells()
  const guest = shells.guest(address)
  return {
    shells,
    address,
    unroutable: '192.0.2.99',
    hostKey: () => guest.hostKey,
    changeHostKey: () => {
      guest.hostKey = fakeHostKey(99)
    },
    fail: (kind) => {
      guest.failing = kind
    },
    inside: async () => guest.shells.at(-1) ?? Promise.reject(new Error('no shell was opened')),
    connections: () => guest.shells.filter(({ isClosed }) => !isClosed).length,
  }
})

const key = newSshKey()

/** The driver and a real SSH server; only the guest around it is missing. */
guestShellsContract('SSH shells', async (t) => {
  const server = await SshServer.start(key.publicKey)
  const newShells = (connectMs: number): SshShells => new SshShells({ ...key, port: server.port, connectMs })
  let shells = newShells(20_000)
  t.after(() => server.stop())
  return {
    get shells() {
      return shells
    },
    address: '127.0.0.1',
    // For a broadcast address, the kernel says at once that TCP cannot reach it.
    unroutable: '255.255.255.255',
    hostKey: () => server.fingerprint,
    changeHostKey: () => server.changeHostKey(),
    fail: async (kind) => {
      if (kind === 'refused') await server.stop()
      if (kind === 'timed_out') {
        server.mood = 'silent'
        shells = newShells(100)
      }
      if (kind === 'shell_refused') server.mood = 'refusing shells'
      if (kind === 'failed') server.mood = 'hanging up'
    },
    inside: async () => server.shells.at(-1) ?? Promise.reject(new Error('no shell was opened')),
    connections: () => server.connectionCount,
  }
})
