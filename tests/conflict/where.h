/* SPDX-License-Identifier: MIT */
/* What an address belongs to, in words, for the reports of records that share a line. */
#ifndef TESTS_CONFLICT_WHERE_H
#define TESTS_CONFLICT_WHERE_H

#include "mmus.h"

#include <stddef.h>
#include <stdint.h>

#define WHERE_ROOM 160

/* As "table of the mm, the generation of walks"; space NULL: an address of the program. */
void where_data(char text[WHERE_ROOM], const struct t_space *space, uintptr_t addr);

/* The same without numbers, as "table.gen": what all such objects share the name of. */
void where_field(char text[WHERE_ROOM], const struct t_space *space, uintptr_t addr);

/* The function, file and line of an instruction, by addr2line if there is one. */
void where_code(char text[WHERE_ROOM], uintptr_t pc);

#endif
