/**
 * A daemon that only has consoles, run by systemd as a service: `node console-agent.ts SOCKET FILLERS RUN_DIRECTORY`.
 * It takes one request per connection, a JSON line, and answers with another.
 */
import { closeSync, openSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { HostFault } from '../../src/core/errors.ts'
import type { FaultCode } from '../../src/core/errors.ts'
import { consoleName } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import { ConsoleMasters } from '../../src/host/pty/console-masters.ts'
import { SystemdDescriptorStore } from '../../src/host/systemd/descriptor-store.ts'
import { notify, notifyBarrier, notifyReady } from '../../src/host/systemd/sd-notify.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { silentLog } from '../../src/log/log.ts'
import { ConsoleFollower, movedOf, movedText, textOf, viewSession } from '../contract/console-follower.ts'
import type { MovedText } from '../contract/console-follower.ts'
import type { WindowSize } from '../../src/core/console/console-viewer.ts'

export type AgentRequest = { readonly method: AgentMethod; readonly id: VmId; readonly argument?: unknown }
export type AgentMethod = keyof typeof methods
export type AgentAnswer =
  | { readonly value: unknown }
  | { readonly fault: { readonly code: FaultCode; readonly message: string } }
  | { readonly bug: string }

const [, , socketPath = '', fillers = '0', runDirectory = ''] = process.argv
const store = new SystemdDescriptorStore({ bus: new SystemdBus({ log: silentLog }) })
const consoles = new ConsoleMasters({ store, runDirectory, log: silentLog })
const follower = new ConsoleFollower(consoles)
const adopted = await consoles.adopt()

const methods = {
  inspect: (id: VmId) => consoles.inspect(id),
  ensureMaster: (id: VmId) => consoles.ensureMaster(id),
  removeMaster: (id: VmId) => consoles.removeMaster(id),
  endSession: (id: VmId) => consoles.endSession(id),
  remove: (id: VmId) => consoles.remove(id),
  last: (id: VmId) => textOf(consoles.lastSession(id)),
  moved: (id: VmId) => movedText(consoles.history(id)),
  adoptHistory: (id: VmId, moved: unknown) => consoles.adoptHistory(id, movedOf(moved as MovedText)),
  places: () => consoles.places(),
  list: () => consoles.list(),
  stored: () => consoles.stored(),
  view: (id: VmId, since: unknown) => viewSession(consoles.session(id), Number(since)),
  heard: (id: VmId) => follower.of(id),
  offered: () => follower.offered,
  forget: () => follower.forget(),
  type: (id: VmId, text: unknown) => consoles.session(id)?.write(Buffer.from(String(text))),
  passInput: (id: VmId) => consoles.passInput(id),
  resize: (id: VmId, size: unknown) => consoles.session(id)?.resize(size as WindowSize),
  adopted: () => adopted,
  check: () => store.check(),
  names: async () => [...(await store.names())],
  /** Makes systemd lose a console. */
  drop: (id: VmId) => {
    notify(`FDSTOREREMOVE=1\nFDNAME=${consoleName(id)}`)
    return notifyBarrier()
  },
  /** Fills systemd's store except for that many places, until it is emptied. */
  fill: (_id: VmId, places: unknown) => {
    for (let file = 0; file < Number(fillers) - Number(places ?? 0); file++) {
      notify('FDSTORE=1\nFDNAME=filler', [openSync('/dev/null', 'r')])
    }
    return notifyBarrier()
  },
  empty: () => store.remove('filler'),
  /** Stores one open file under two names. systemd keeps it under the first only. */
  storeTwice: async () => {
    const fd = openSync('/dev/null', 'r')
    try {
      await store.store('filler', fd)
      await store.store('another', fd)
    } finally {
      closeSync(fd)
    }
  },
}

async function answer(line: string): Promise<AgentAnswer> {
  try {
    const { method, id, argument } = JSON.parse(line) as AgentRequest
    return { value: (await methods[method](id, argument)) ?? null }
  } catch (error) {
    if (error instanceof HostFault) return { fault: { code: error.code, message: errorChain(error) } }
    return { bug: errorChain(error) }
  }
}

rmSync(socketPath, { force: true })
const server = createServer((connection) => {
  createInterface(connection).on('line', (line) => {
    void answer(line).then((said) => connection.end(`${JSON.stringify(said)}\n`))
  })
})
server.listen(socketPath, () => notifyReady())
