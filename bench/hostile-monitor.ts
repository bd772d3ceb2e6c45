/*
 * Stands in for the monitor of one VM: answers QMP as QEMU does, and plays an agent that freezes its guest once. From
 * then on it floods every client that asks it anything, and reports that on standard output. Arguments: the VM's
 * runtime directory, its user id, the MiB of its disk.
 */
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import type { Socket } from 'node:net'

const [directory = '', userId = '', diskMib = ''] = process.argv.slice(2)
const FLOOD = Buffer.from('x\n'.repeat(32 * 1024))
const GREETING = { QMP: { version: { qemu: { major: 10, minor: 0, micro: 0 } }, capabilities: [] } }
const STATS = { rd_bytes: 0, rd_operations: 0, wr_bytes: 0, wr_operations: 0 }

let status = 'running'
let isFrozen = false

type Asked = { readonly execute: string; readonly id?: number; readonly arguments?: { readonly id?: number } }

process.setgid?.(Number(userId))
process.setuid?.(Number(userId))
await Promise.all([listen('qmp.sock', qmp), listen('agent.sock', agent)])
process.stdout.write('ready\n')

async function listen(name: string, serve: (socket: Socket) => void): Promise<void> {
  const path = `${directory}/${name}`
  rmSync(path, { force: true })
  const server = createServer((socket) => {
    socket.on('error', () => {})
    serve(socket)
  })
  await new Promise<void>((resolve) => server.listen(path, resolve))
}

function qmp(socket: Socket): void {
  const say = (what: object): void => void socket.write(`${JSON.stringify(what)}\n`)
  say(GREETING)
  createInterface({ input: socket }).on('line', (line) => {
    const { execute, id } = JSON.parse(line) as Asked
    say({ return: answerTo(execute), id })
  })
}

function answerTo(command: string): unknown {
  const virtualSize = Number(diskMib) * 1024 * 1024
  switch (command) {
    case 'stop':
      status = 'paused'
      return {}
    case 'cont':
      status = 'running'
      return {}
    case 'query-status':
      return { status }
    case 'query-block':
      return [
        {
          qdev: '/disk',
          inserted: { 'node-name': 'disk', image: { 'virtual-size': virtualSize }, iops: 0, bps: 0 },
        },
      ]
    case 'query-blockstats':
      return [{ 'node-name': 'disk', stats: STATS }]
    case 'query-chardev':
      return [{ label: 'agent', filename: '', 'frontend-open': true }]
    default:
      return {}
  }
}

function agent(socket: Socket): void {
  if (isFrozen) return flood(socket)
  socket.setEncoding('latin1').on('data', (text: string) => {
    for (const line of text.replaceAll('\xff', '').split('\n').filter(Boolean)) {
      const { execute, arguments: args } = JSON.parse(line) as Asked
      isFrozen ||= execute === 'guest-fsfreeze-freeze'
      const value = execute === 'guest-sync-delimited' ? args?.id : 1
      socket.write(`\xff{"return": ${value}}\n`, 'latin1')
    }
  })
}

function flood(socket: Socket): void {
  process.stdout.write('flooded\n')
  socket.resume()
  const more = (): void => {
    while (!socket.destroyed && socket.write(FLOOD));
  }
  socket.on('drain', more)
  more()
}
