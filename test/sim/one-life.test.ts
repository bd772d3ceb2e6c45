import { calm } from './chaos.ts'
import { ACTS, testOneLife } from './one-life.ts'
import type { ActName } from './one-life.ts'

testOneLife('a daemon that dies', ACTS, calm)

/** Acts whose wish must be on the disk before it is carried out, one of each kind: all acts would take too long. */
const STORED: readonly ActName[] = [
  'create',
  'grow and limit the disk',
  'fall asleep',
  'save it while the host shuts down',
  'stop',
  'delete',
]

testOneLife('a host that loses its power', STORED, { ...calm, powerLoss: 1 })
