/** Name servers of a guest, from the configuration of the host: the guest asks the one that its seed names. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { configure } from '../../lab/inside/configure.ts'
import { getVm, mutate, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { sh } from '../../lab/inside/shell.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { atEnd } from '../contract/at-end.ts'
import { sharedHost } from './shared-host.ts'

const GATEWAY = '169.254.0.1'
const ADDRESS = '192.0.2.46'
const ANSWER = [203, 0, 113, 77]

sharedHost({
  make: () => configure('network', { name_servers: [GATEWAY], host_ports_udp: [53] }),
  remove: () => configure('network', { name_servers: undefined, host_ports_udp: undefined }),
})

/** Returns the answer to a question for one name (RFC 1035, 4.1): an address if one is asked for, else nothing. */
function answerTo(question: Buffer): Buffer {
  const end = question.indexOf(0, 12) + 5
  const asksForIpv4 = question.readUInt16BE(end - 4) === 1
  const header = Buffer.from(question.subarray(0, 12))
  header.writeUInt16BE(0x81_80, 2)
  header.writeUInt16BE(asksForIpv4 ? 1 : 0, 6)
  header.fill(0, 8)
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...ANSWER])
  return Buffer.concat([header, question.subarray(12, end), ...(asksForIpv4 ? [record] : [])])
}

/** Answers questions at the gateway until the test ends. */
async function serveNames(t: TestContext): Promise<void> {
  const socket = createSocket('udp4')
  socket.on('message', (question, { address, port }) => socket.send(answerTo(question), port, address))
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.bind(53, GATEWAY, resolve)
  atEnd(t, async () => void socket.close())
  await promise
}

test('a guest that names no name servers learns those of the host, and reaches one at the gateway', async (t) => {
  const id = 'names-1'
  await mutate('PUT', `/v1/vms/${id}`, guestRequest({ network: { ipv4_address: ADDRESS } }))
  await settled(id, 'running')
  await until(`${id} answers`, async () => {
    await sh('ping', '-c', '1', '-W', '1', ADDRESS)
    return true
  })
  const { network } = (await getVm(id)).desired as { readonly network?: { readonly name_servers?: unknown } }
  assert.deepEqual(network?.name_servers, [GATEWAY])
  await serveNames(t)
  const found = `sed -n '/nameservers:/,$s/^ *- "\\(.*\\)"$/nameserver \\1/p' /run/seed/network-config`
  await typeInto(id, `mount -o ro /dev/vdb /run/seed; ${found} >/etc/resolv.conf; umount /run/seed`)
  assert.match(await typeInto(id, 'nslookup web.example'), new RegExp(ANSWER.join('\\.')))
})
