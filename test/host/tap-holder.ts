/** Holds a tap as a monitor does, under the user of its VM, until it is killed. Arguments: the tap, and the user id. */
import { attachTap } from './attach-tap.ts'

const [device = '', userId = ''] = process.argv.slice(2)
attachTap(device)
process.setgroups?.([])
process.setgid?.(Number(userId))
process.setuid?.(Number(userId))
console.log('ready')
process.stdin.resume()
