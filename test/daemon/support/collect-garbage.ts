import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Frees at once what nobody needs any more, so that what is left can be counted. */
export const collectGarbage: () => void = runInNewContext('gc')
