// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the side job "cc" of the suite apps compiles, again and again: a sort, a
 * hash table, a matrix product and an expression parser, without headers, so
 * that it needs the compiler alone. Nobody runs it.
 */
typedef unsigned long word;

extern void *allocate(word size);

struct entry {
	word key;
	word value;
	struct entry *next;
};

struct table {
	struct entry *buckets[256];
	word count;
};

static word hash(word key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdUL;
	key ^= key >> 33;
	return key & 255;
}

word *lookup(struct table *table, word key)
{
	struct entry *entry;

	for (entry = table->buckets[hash(key)]; entry; entry = entry->next)
		if (entry->key == key)
			return &entry->value;
	entry = allocate(sizeof(*entry));
	entry->key = key;
	entry->value = 0;
	entry->next = table->buckets[hash(key)];
	table->buckets[hash(key)] = entry;
	table->count++;
	return &entry->value;
}

static void swap(word *a, word *b)
{
	word kept = *a;

	*a = *b;
	*b = kept;
}

void quicksort(word *values, long first, long last)
{
	while (first < last) {
		word pivot = values[first + (last - first) / 2];
		long low = first, high = last;

		while (low <= high) {
			while (values[low] < pivot)
				low++;
			while (values[high] > pivot)
				high--;
			if (low <= high)
				swap(&values[low++], &values[high--]);
		}
		if (high - first < last - low) {
			quicksort(values, first, high);
			first = low;
		} else {
			quicksort(values, low, last);
			last = high;
		}
	}
}

void multiply(double (*restrict c)[32], double (*restrict a)[32], double (*restrict b)[32])
{
	for (int i = 0; i < 32; i++)
		for (int j = 0; j < 32; j++) {
			double sum = 0;

			for (int k = 0; k < 32; k++)
				sum += a[i][k] * b[k][j];
			c[i][j] += sum;
		}
}

static const char *blank(const char *text)
{
	while (*text == ' ')
		text++;
	return text;
}

static const char *sum_of(const char *text, long *value);

static const char *factor_of(const char *text, long *value)
{
	int negative = 0;

	text = blank(text);
	while (*text == '-') {
		negative = !negative;
		text = blank(text + 1);
	}
	*value = 0;
	if (*text == '(') {
		text = blank(sum_of(text + 1, value));
		if (*text == ')')
			text++;
	} else {
		while (*text >= '0' && *text <= '9')
			*value = 10 * *value + (*text++ - '0');
	}
	if (negative)
		*value = -*value;
	return text;
}

static const char *product_of(const char *text, long *value)
{
	text = blank(factor_of(text, value));
	while (*text == '*' || *text == '/' || *text == '%') {
		char operator = *text;
		long other;

		text = blank(factor_of(text + 1, &other));
		switch (operator) {
		case '*':
			*value *= other;
			break;
		case '/':
			*value = other ? *value / other : 0;
			break;
		default:
			*value = other ? *value % other : 0;
		}
	}
	return text;
}

static const char *sum_of(const char *text, long *value)
{
	text = blank(product_of(text, value));
	while (*text == '+' || *text == '-') {
		char operator = *text;
		long other;

		text = blank(product_of(text + 1, &other));
		*value += operator == '+' ? other : -other;
	}
	return text;
}

long evaluate(const char *text)
{
	long value;

	sum_of(text, &value);
	return value;
}
