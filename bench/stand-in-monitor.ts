/**
 * A stand-in for QEMU that is small enough for a thousand VMs on one host. In each unit runs a socat, as the VM's user,
 * that listens on the control socket. It hands each connection to this process, which speaks as much of QMP as the daemon
 * asks for. This process also holds the taps: the sandbox of a unit lets socat not name one.
 */
import { chmodSync, closeSync, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { attach } from '../src/host/tap/tun-control.ts'
import type { Server, Socket } from 'node:net'
import type { DeviceName } from '../src/core/ids.ts'

/** Below /usr, which is the only part of the host that the root of a unit has. */
const FOLDER = '/usr/lib/vmhostd-stand-in'
export const STAND_IN_PROGRAM = `${FOLDER}/qemu`
const CONTROL = `${FOLDER}/qmp.sock`
const TAPS = `${FOLDER}/taps.sock`
const VERSION = { major: 10, minor: 0, micro: 2 }

/**
 * Answers `--version`. Otherwise it asks for its tap to be held, which ends with an end of input, and listens where `-qmp
 * unix:PATH,…` says until it is killed.
 */
const PROGRAM = `#!/usr/bin/sh
if [ "$1" = --version ]; then
  echo "QEMU emulator version ${Object.values(VERSION).join('.')}"
  exit
fi
for argument; do
  case "$argument" in
    tap,*) tap=\${argument#*,ifname=} ;;
    unix:*/qmp.sock,*) path=\${argument#unix:} ;;
  esac
done
if [ "\${tap+is set}" ]; then
  echo "\${tap%%,*}" | /usr/bin/socat -t 10 - UNIX-CONNECT:${TAPS}
fi
exec /usr/bin/socat "UNIX-LISTEN:\${path%%,*},fork" UNIX-CONNECT:${CONTROL}
`

/** Installs the program, and answers for all its processes until `close`. Each disk has `diskMib`. */
export async function standInMonitors(diskMib: number): Promise<{ close(): void }> {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(STAND_IN_PROGRAM, PROGRAM)
  chmodSync(STAND_IN_PROGRAM, 0o755)
  const held = new Map<string, number>()
  const servers = [
    await listen(CONTROL, (socket) => serve(socket, diskMib)),
    await listen(TAPS, (socket) => {
      lines(socket, (device) => {
        const earlier = held.get(device)
        // The daemon has made another tap of the same name since.
        if (earlier !== undefined) closeSync(earlier)
        const fd = openSync('/dev/net/tun', 'r+')
        attach(fd, device as DeviceName, { exclusive: false })
        held.set(device, fd)
        socket.end()
      })
    }),
  ]
  return {
    close() {
      for (const server of servers) server.close()
      for (const fd of held.values()) closeSync(fd)
    },
  }
}

async function listen(path: string, onSocket: (socket: Socket) => void): Promise<Server> {
  rmSync(path, { force: true })
  const server = createServer(onSocket)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen({ path, backlog: 4096 }, resolve)
  await promise
  // Each VM's user connects to it.
  chmodSync(path, 0o777)
  return server
}

function lines(socket: Socket, onLine: (line: string) => void): void {
  // The daemon ends its connections without notice when it is killed.
  socket.on('error', () => socket.destroy())
  createInterface({ input: socket }).on('line', onLine)
}

type Command = { readonly execute: string; readonly id: number }

/** Serves one connection (QEMU, docs/interop/qmp-spec). Its guest runs when it begins. */
function serve(socket: Socket, diskMib: number): void {
  let status = 'running'
  const say = (message: object): void => void socket.write(`${JSON.stringify(message)}\n`)
  const answer = (command: string): object => {
    switch (command) {
      case 'query-status':
        return { status, running: status === 'running' }
      case 'query-block':
        return [blockInfo(diskMib)]
      case 'query-blockstats':
        return [{ 'node-name': 'disk', stats: NO_TRAFFIC }]
      case 'query-chardev':
        return [{ label: 'agent', 'frontend-open': false }]
      case 'stop':
      case 'cont':
        status = command === 'stop' ? 'paused' : 'running'
        return {}
      default:
        return {}
    }
  }
  lines(socket, (line) => {
    const { execute, id } = JSON.parse(line) as Command
    say({ return: answer(execute), id })
  })
  say({ QMP: { version: { qemu: VERSION, package: '' }, capabilities: [] } })
}

const NO_TRAFFIC = { rd_bytes: 0, rd_operations: 0, wr_bytes: 0, wr_operations: 0 }

const blockInfo = (diskMib: number): object => ({
  qdev: '/machine/peripheral/disk/virtio-backend',
  inserted: { 'node-name': 'disk', image: { 'virtual-size': diskMib * 1024 * 1024 }, iops: 0, bps: 0 },
})
