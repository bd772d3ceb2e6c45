/**
 * Holds a tap as a monitor does, under the user of its VM, until it is killed. Each line of its input is a change of
 * the tap by its descriptor. Arguments: the tap, and the user id.
 */
import { createInterface } from 'node:readline'
import { attachTap, changeTap } from './attach-tap.ts'
import type { TapMaking } from '../../src/core/world/network-state.ts'

const [device = '', userId = ''] = process.argv.slice(2)
const fd = attachTap(device)
process.setgroups?.([])
process.setgid?.(Number(userId))
process.setuid?.(Number(userId))
console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  changeTap(fd, JSON.parse(line) as Partial<TapMaking>)
  console.log('changed')
}
