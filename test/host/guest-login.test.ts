/** A login with the daemon's own key, which the seed disk carries, opens a shell in a real guest. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mutate, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { ensureKeyPair } from '../../src/host/ssh/key-pair.ts'
import { Client, utils } from '../../src/host/ssh/ssh2.ts'
import { sharedHost } from './shared-host.ts'
import type { ClientChannel } from '../../src/host/ssh/ssh2.ts'

const VMS = { 'login-1': '192.0.2.41', 'login-2': '2001:db8::42' } as const
const STATE = '/var/lib/vmhostd'
const ownKey = utils.generateKeyPairSync('ecdsa', { bits: 256, comment: 'a "user" of ours' })

let daemonKey: string

sharedHost({
  make: async () => {
    daemonKey = ensureKeyPair(STATE, 'not made here').privateKey
    for (const [id, address] of Object.entries(VMS)) {
      const network = address.includes(':') ? { ipv6_address: address } : { ipv4_address: address }
      const request = { ...guestRequest({ network }), ssh_authorized_keys: [ownKey.public] }
      await mutate('PUT', `/v1/vms/${id}`, request)
    }
    for (const id of Object.keys(VMS)) await settled(id, 'running')
  },
})

type Login = { readonly client: Client; readonly hostKey: string }

/** Tries once to log in. */
async function tryLogin(host: string, username: string, privateKey: string): Promise<Login> {
  const client = new Client()
  const { promise, resolve, reject } = Promise.withResolvers<Login>()
  let hostKey = ''
  client
    .on('ready', () => resolve({ client, hostKey }))
    .on('error', (error) => {
      // A regular close would wait for the answer of a guest that may be gone.
      client.destroy()
      reject(error)
    })
    .connect({
      ...{ host, username, privateKey, readyTimeout: 10_000 },
      hostVerifier: (key: Buffer) => {
        hostKey = key.toString('base64')
        return true
      },
    })
  return promise
}

/** Waits until the guest serves SSH. */
const login = (host: string, username = 'root', key = daemonKey): Promise<Login> =>
  until(`${username} logs in to ${host}`, () => tryLogin(host, username, key))

type Shell = {
  readonly channel: ClientChannel
  /** Waits until the guest has printed a line that matches this pattern. */
  readonly says: (line: RegExp) => Promise<unknown>
}

/** Opens a shell on a pty of 132 columns and 43 rows. */
async function openShell({ client }: Login): Promise<Shell> {
  const { promise, resolve, reject } = Promise.withResolvers<ClientChannel>()
  client.shell({ term: 'xterm', cols: 132, rows: 43 }, (error, channel) =>
    error === undefined ? resolve(channel) : reject(error),
  )
  const channel = await promise
  let text = ''
  channel.on('data', (bytes: Buffer) => (text += bytes.toString()))
  return {
    channel,
    says: (line) =>
      until(`the shell says ${line.source}`, async () =>
        text.split('\r\n').some((printed) => line.test(printed)) ? true : undefined,
      ),
  }
}

test('the key opens a shell of root on a pty, whose size follows the window', async () => {
  const session = await login(VMS['login-1'])
  const { channel, says } = await openShell(session)
  channel.write('id -un; tty; stty size\n')
  await says(/^root$/)
  await says(/^\/dev\/pts\/\d+$/)
  await says(/^43 132$/)
  channel.setWindow(21, 99, 0, 0)
  channel.write('stty size\n')
  await says(/^21 99$/)
  session.client.destroy()
})

test('the key also admits the other user, over IPv6', async () => {
  const session = await login(VMS['login-2'], 'guest')
  const { channel, says } = await openShell(session)
  channel.write('id -un; pwd\n')
  await says(/^guest$/)
  await says(/^\/home\/guest$/)
  session.client.destroy()
})

test('the keys of the user open the guest as before, and no other key does', async () => {
  const { client } = await login(VMS['login-1'], 'root', ownKey.private)
  client.destroy()
  const other = utils.generateKeyPairSync('ecdsa', { bits: 256 }).private
  await assert.rejects(tryLogin(VMS['login-1'], 'root', other), /authentication methods failed/)
})

test('a guest keeps its host key over a power cut, and another guest has another', async () => {
  const id = 'login-1'
  const [one, two] = [await login(VMS[id]), await login(VMS['login-2'])]
  one.client.destroy()
  two.client.destroy()
  assert.notEqual(one.hostKey, two.hostKey)
  await sh('systemctl', 'kill', '--signal=KILL', `vmhost-${id}`)
  await setPower(id, 'stopped')
  await settled(id, 'stopped')
  await setPower(id, 'running')
  await settled(id, 'running')
  const again = await login(VMS[id])
  again.client.destroy()
  assert.equal(again.hostKey, one.hostKey)
})
