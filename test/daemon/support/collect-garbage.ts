import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Frees unused memory at once, so that the rest can be counted. */
export const collectGarbage: () => void = runInNewContext('gc')
